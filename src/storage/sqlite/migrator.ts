import type { AppliedMigration, MigrationStatus, Migrator, OnMigrationStep } from '../backend.ts'
import {
  named,
  noteOf,
  oldestKey,
  planMigrations,
  printMigrations,
  readMarks,
  type SchemaMarks,
} from '../migration-plan.ts'
import type { Connection } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import { migrations } from './migrations/index.ts'
import type { Writer } from './writing/writer.ts'

/**
 * SQLite's DDL is transactional and its writer is one, so all that is missing is made in one transaction: several
 * processes that start at once wait for the first and find it done, and one that is killed leaves nothing behind.
 * The version is in a table of its own; `user_version` belongs to whoever else uses the file.
 */
export function createMigrator(writer: Writer, reader: Reader): Migrator {
  return {
    async status(): Promise<MigrationStatus> {
      const { steps: _, ...status } = planMigrations(await reader.read(marksOf), migrations)
      return status
    },
    up(onStep): Promise<readonly AppliedMigration[]> {
      // A function does not go into a thread; who wants to hear of steps has none.
      return writer.write({ operation: 'migrate', namespace: '', args: onStep ? [onStep] : [] })
    },
    sql(): string {
      return printMigrations([
        { number: 0, name: 'versions', statements: [versions] },
        ...migrations,
        { number: migrations.at(-1)!.number, name: 'who may work on it', statements: [writeNote] },
      ])
    },
  }
}

const versions = `CREATE TABLE IF NOT EXISTS signalbox_migration (
      number INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      applied_at INTEGER NOT NULL
    ) STRICT`

/** Makes what is missing, in the caller's transaction. */
export function applyMigrations(
  connection: Connection,
  onStep?: OnMigrationStep,
): readonly AppliedMigration[] {
  const { steps } = planMigrations(marksOf(connection), migrations)
  if (steps.length === 0) return []
  connection.run(versions)
  for (const [at, { number, name, statements }] of steps.entries()) {
    onStep?.({ number, name }, at, steps.length)
    for (const statement of statements) connection.run(statement)
    connection.run(
      `INSERT INTO signalbox_migration (number, name, applied_at) VALUES (?1, ?2, unixepoch() * 1000)`,
      number,
      name,
    )
  }
  connection.run(writeNote)
  return steps.map(named)
}

const writeNote = `INSERT INTO signalbox_meta (key, value) VALUES ('${oldestKey}', '${noteOf(migrations)}')
  ON CONFLICT DO UPDATE SET value = excluded.value`

function marksOf(connection: Connection): SchemaMarks {
  const exists = connection.get(
    `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'signalbox_migration'`,
  )
  if (!exists) return { current: 0, oldest: undefined }
  const { current, note } = connection.get<{ current: number; note: string | null }>(
    `SELECT coalesce(max(number), 0) AS current,
       (SELECT value FROM signalbox_meta WHERE key = '${oldestKey}') AS note
     FROM signalbox_migration`,
  )!
  return readMarks(current, note)
}
