import type { Migrator } from '../backend.ts'
import type { Migration } from '../migration-plan.ts'
import { PooledCalls } from './connection/calls.ts'
import { ownSession, parsePlace } from './connection/connection.ts'
import { Pool } from './connection/pool.ts'
import { createMigrator } from './migrator.ts'
import { qualifyTables } from './tables.ts'

/** The schema of a database, without a store on it. Nothing is connected to before it is asked. */
export function openMariadbMigrator(url: string, known?: readonly Migration[]): Migrator & AsyncDisposable {
  const { options, database } = parsePlace(url)
  const pool = new Pool(options, ownSession, 1)
  const migrator = createMigrator(new PooledCalls(pool), pool, qualifyTables(database), database, known)
  return {
    status: () => migrator.status(),
    up: (onStep) => migrator.up(onStep),
    sql: () => migrator.sql(),
    [Symbol.asyncDispose]: () => pool.close(),
  }
}
