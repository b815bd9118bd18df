import type { Migrator } from '../backend.ts'
import { Calls } from './calls.ts'
import { nowMs } from './clock.ts'
import { ownSession, parsePlace } from './connection.ts'
import { migrations } from './migrations/index.ts'
import { createMigrator } from './migrator.ts'
import { Pool } from './pool.ts'
import { qualifyTables } from './tables.ts'

/** The schema of a database, without a store on it. Nothing is connected to before it is asked. */
export function openMariadbMigrator(url: string): Migrator & AsyncDisposable {
  const { options, database } = parsePlace(url)
  const pool = new Pool(options, ownSession, 1)
  const tables = qualifyTables(database)
  const migrator = createMigrator(new Calls(pool), pool, tables, database)
  return {
    status: () => migrator.status(),
    up: () => migrator.up(),
    sql() {
      const recorded = migrations.map(
        ({ number, name }) =>
          `INSERT IGNORE INTO ${tables.migration} (number, name, applied_at) VALUES (${number}, '${name}', ${nowMs});\n`,
      )
      return `${migrator.sql()}\n${recorded.join('')}`
    },
    [Symbol.asyncDispose]: () => pool.close(),
  }
}
