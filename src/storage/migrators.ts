import { SignalboxError } from '../core/errors.ts'
import type { Migrator } from './backend.ts'
import { withDriver } from './driver.ts'
import { requireSchema } from './migration-plan.ts'

/** A migrator, and the connections it opened. */
export type OpenMigrator = Migrator & AsyncDisposable

/**
 * The way to a database's schema without a store: opening a store requires the schema that is asked about here.
 * Nothing is connected to before `status` or `up` is called, so that `sql` needs no server.
 */
export async function openMigrator(url: string): Promise<OpenMigrator> {
  const migrator = await choose(url)
  return {
    ...migrator,
    async up(onStep) {
      const status = await migrator.status()
      // Engines skip what they find done, and would call a schema from the future up to date.
      if (status.current > status.latest || status.isBeforeBaseline) requireSchema(status)
      return migrator.up(onStep)
    },
  }
}

async function choose(url: string): Promise<OpenMigrator> {
  const [scheme = ''] = /^[a-z][a-z0-9+.-]*(?=:)/.exec(url) ?? []
  switch (scheme) {
    case 'sqlite':
      return (await import('./sqlite/open-migrator.ts')).openSqliteMigrator(url)
    case 'postgres':
    case 'postgresql':
      return (await withDriver('pg', () => import('./postgres/open-migrator.ts'))).openPostgresMigrator(url)
    case 'mysql':
    case 'mariadb':
      return (await withDriver('mysql2', () => import('./mariadb/open-migrator.ts'))).openMariadbMigrator(url)
    default:
      // The URL itself is not shown: it may hold a password.
      throw new SignalboxError(
        'invalid_argument',
        `There is no schema to migrate in "${scheme}:". Use sqlite:FILE, postgres://… or mysql://… (MariaDB).`,
      )
  }
}
