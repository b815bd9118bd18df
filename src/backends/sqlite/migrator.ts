import type { AppliedMigration, MigrationStatus, Migrator } from '../backend.ts'
import { named, planMigrations, printMigrations } from '../migrate.ts'
import type { Connection } from './connection.ts'
import { migrations } from './migrations/index.ts'
import type { Reader } from './reader.ts'
import type { Writer } from './writer.ts'

/**
 * SQLite's DDL is transactional and its writer is one, so all that is missing is made in one transaction: several
 * processes that start at once wait for the first and find it done, and one that is killed leaves nothing behind.
 * The version is in a table of its own; `user_version` belongs to whoever else uses the file.
 */
export function createMigrator(writer: Writer, reader: Reader): Migrator {
  return {
    async status(): Promise<MigrationStatus> {
      const { steps: _, ...status } = planMigrations(await reader.read(readVersion), migrations)
      return status
    },
    up(): Promise<readonly AppliedMigration[]> {
      return writer.write({ operation: 'migrate', namespace: '', args: [] })
    },
    sql(): string {
      return printMigrations([{ number: 0, name: 'versions', statements: [versions] }, ...migrations])
    },
  }
}

const versions = `CREATE TABLE IF NOT EXISTS signalbox_migration (
      number INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      applied_at INTEGER NOT NULL
    ) STRICT`

/** Makes what is missing, in the caller's transaction. */
export function applyMigrations(connection: Connection): readonly AppliedMigration[] {
  const { steps } = planMigrations(readVersion(connection), migrations)
  if (steps.length === 0) return []
  connection.run(versions)
  for (const { number, name, statements } of steps) {
    for (const statement of statements) connection.run(statement)
    connection.run(
      `INSERT INTO signalbox_migration (number, name, applied_at) VALUES (?1, ?2, unixepoch() * 1000)`,
      number,
      name,
    )
  }
  return steps.map(named)
}

function readVersion(connection: Connection): number {
  const exists = connection.get(
    `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'signalbox_migration'`,
  )
  if (!exists) return 0
  return connection.get<{ number: number }>(
    'SELECT coalesce(max(number), 0) AS number FROM signalbox_migration',
  )!.number
}
