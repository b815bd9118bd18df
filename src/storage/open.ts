import { SignalboxError } from '../core/errors.ts'
import type { Backend, BackendOptions, Migrator } from './backend.ts'
import { withDriver } from './driver.ts'
import { requireSchema } from './migration-plan.ts'
import type { CopyEnd } from './sql/copy/copy.ts'
import { checkRedisUrl, withRedis } from './with-redis.ts'

export type { Backend, BackendOptions } from './backend.ts'

/**
 * Chooses the engine by the URL's scheme. Only this file does. It loads only that engine, so a program needs no driver
 * for other databases.
 */
export async function openBackend(url: string, { redis, ...options }: BackendOptions): Promise<Backend> {
  if (redis === undefined) return openEngine(url, options)
  const address = checkRedisUrl('redis', redis)
  const backend = await openEngine(url, options)
  try {
    return await withRedis(backend, address, options)
  } catch (error) {
    await backend.close()
    throw error
  }
}

async function openEngine(url: string, options: BackendOptions): Promise<Backend> {
  const scheme = schemeOf(url)
  if (scheme === 'memory') return (await import('./memory/index.ts')).openMemory(options)
  const refusal = `There is no engine for "${scheme}:". Use memory:, sqlite:FILE, postgres://… or mysql://… (MariaDB).`
  return requireEngine(scheme, refusal).open(url, options)
}

/** What each SQL engine opens by a URL. */
interface SqlEngine {
  open(url: string, options: BackendOptions): Promise<Backend>
  migrator(url: string): Promise<OpenMigrator>
  copyEnd(url: string): Promise<CopyEnd>
}

const sqlite: SqlEngine = {
  open: async (url, options) => (await import('./sqlite/index.ts')).openSqlite(url, options),
  migrator: async (url) => (await import('./sqlite/open-migrator.ts')).openSqliteMigrator(url),
  copyEnd: async (url) => (await import('./sqlite/copy.ts')).openSqliteCopyEnd(url),
}

const postgres: SqlEngine = {
  open: async (url, options) =>
    (await withDriver('pg', () => import('./postgres/index.ts'))).openPostgres(url, options),
  migrator: async (url) =>
    (await withDriver('pg', () => import('./postgres/migrator.ts'))).openPostgresMigrator(url),
  copyEnd: async (url) =>
    (await withDriver('pg', () => import('./postgres/copy.ts'))).openPostgresCopyEnd(url),
}

const mariadb: SqlEngine = {
  open: async (url, options) =>
    (await withDriver('mysql2', () => import('./mariadb/index.ts'))).openMariadb(url, options),
  migrator: async (url) =>
    (await withDriver('mysql2', () => import('./mariadb/migrator.ts'))).openMariadbMigrator(url),
  copyEnd: async (url) =>
    (await withDriver('mysql2', () => import('./mariadb/copy.ts'))).openMariadbCopyEnd(url),
}

const engines: ReadonlyMap<string, SqlEngine> = new Map([
  ['sqlite', sqlite],
  ['postgres', postgres],
  ['postgresql', postgres],
  ['mysql', mariadb],
  ['mariadb', mariadb],
])

function schemeOf(url: string): string {
  return /^[a-z][a-z0-9+.-]*(?=:)/.exec(url)?.[0] ?? ''
}

/** `refusal` must not show the URL: it may contain a password. */
function requireEngine(scheme: string, refusal: string): SqlEngine {
  const engine = engines.get(scheme)
  if (engine === undefined) throw new SignalboxError('invalid_argument', refusal)
  return engine
}

/** A migrator, and the connections that it opened. */
export type OpenMigrator = Migrator & AsyncDisposable

/**
 * Opens a database's migrator without a store, because opening a store requires the schema already. It connects only
 * when `status` or `up` is called, so `sql` needs no server.
 */
export async function openMigrator(url: string): Promise<OpenMigrator> {
  const scheme = schemeOf(url)
  const refusal = `There is no schema to migrate in "${scheme}:". Use sqlite:FILE, postgres://… or mysql://… (MariaDB).`
  const migrator = await requireEngine(scheme, refusal).migrator(url)
  return {
    ...migrator,
    async up(onStep) {
      const status = await migrator.status()
      // Engines skip applied steps, and would call a newer schema up to date.
      if (status.current > status.latest || status.isBeforeBaseline) requireSchema(status)
      return migrator.up(onStep)
    },
  }
}

/** Opens one end of a copy by its URL. Only a database that outlives its process can be one. */
export async function openCopyEnd(url: string): Promise<CopyEnd> {
  const scheme = schemeOf(url)
  const refusal = `"${scheme}:" cannot be copied from or to${whyNot[scheme] ?? ''}. Use sqlite:FILE, postgres://… or mysql://… (MariaDB).`
  return requireEngine(scheme, refusal).copyEnd(url)
}

const whyNot: Readonly<Record<string, string>> = {
  memory: ': it is gone with its process',
  redis: ': it holds only locks and guards, which end when no process works',
  rediss: ': it holds only locks and guards, which end when no process works',
  http: ': name the database of that server instead',
  https: ': name the database of that server instead',
}
