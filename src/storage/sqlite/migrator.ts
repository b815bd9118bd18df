import type { AppliedMigration, MigrationStatus, Migrator, OnMigrationStep } from '../backend.ts'
import {
  type MarksRow,
  type Migration,
  named,
  noSchema,
  noteOf,
  oldestKey,
  planMigrations,
  printMigrations,
  readMarks,
  type SchemaMarks,
  statusOf,
} from '../migration-plan.ts'
import type { Connection } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import { migrations } from './schema.ts'
import type { Writer } from './writing/writes.ts'

/**
 * SQLite's DDL is transactional and there is one writer, so one transaction applies all missing steps. If several
 * processes start together, the first one migrates and the others find it done. A killed process leaves nothing behind.
 * The version is in a separate table, because `user_version` belongs to other programs that use the file.
 */
export function createMigrator(
  writer: Writer,
  reader: Reader,
  known: readonly Migration[] = migrations,
): Migrator {
  return {
    status: async (): Promise<MigrationStatus> => statusOf(await reader.read(marksOf), known),
    up(onStep): Promise<readonly AppliedMigration[]> {
      // A function cannot cross into a thread. A caller with `onStep` has no thread.
      return writer.write({ operation: 'migrate', namespace: '', args: onStep ? [known, onStep] : [known] })
    },
    sql(): string {
      return printMigrations([
        { number: 0, name: 'versions', statements: [versions] },
        ...known,
        {
          number: known.at(-1)!.number,
          name: 'programs that may work on it',
          statements: [writeNote(known)],
        },
      ])
    },
  }
}

const versions = `CREATE TABLE IF NOT EXISTS signalbox_migration (
      number INTEGER NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      applied_at INTEGER NOT NULL
    ) STRICT`

/** Applies the missing steps in the caller's transaction. */
export function applyMigrations(
  connection: Connection,
  known: readonly Migration[],
  onStep?: OnMigrationStep,
): readonly AppliedMigration[] {
  const { steps } = planMigrations(marksOf(connection), known)
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
  connection.run(writeNote(known))
  return steps.map(named)
}

function writeNote(known: readonly Migration[]): string {
  return `INSERT INTO signalbox_meta (key, value) VALUES ('${oldestKey}', '${noteOf(known)}')
  ON CONFLICT DO UPDATE SET value = excluded.value`
}

function marksOf(connection: Connection): SchemaMarks {
  const exists = connection.get(
    `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'signalbox_migration'`,
  )
  if (!exists) return noSchema
  const row = connection.get<MarksRow>(
    `SELECT coalesce(max(number), 0) AS current,
       (SELECT name FROM signalbox_migration WHERE number = 1) AS first,
       (SELECT value FROM signalbox_meta WHERE key = '${oldestKey}') AS note
     FROM signalbox_migration`,
  )!
  return readMarks(row)
}
