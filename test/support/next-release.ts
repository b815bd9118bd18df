/**
 * The schema of a release that does not exist: this version's steps, and one or two more. Migrators take their steps as
 * an argument, so tests of upgrades need no released step beyond the baseline.
 */
import type { Migrator } from '../../src/storage/backend.ts'
import { openMariadbMigrator } from '../../src/storage/mariadb/migrator.ts'
import { migrations as mariadbMigrations } from '../../src/storage/mariadb/schema.ts'
import type { Migration } from '../../src/storage/migration-plan.ts'
import { openPostgresMigrator } from '../../src/storage/postgres/migrator.ts'
import { migrationsFor } from '../../src/storage/postgres/schema.ts'
import { openSqliteMigrator } from '../../src/storage/sqlite/open-migrator.ts'
import { migrations as sqliteMigrations } from '../../src/storage/sqlite/schema.ts'

/** How the synthetic steps treat programs that know only this version's steps. */
export type NextSteps = 'allowing' | 'allowing, then refusing'

/** The migrator of the next release. Its second step changes a table and makes one; its third refuses this version. */
export function openNextMigrator(url: string, steps: NextSteps = 'allowing'): Migrator & AsyncDisposable {
  if (url.startsWith('sqlite')) return openSqliteMigrator(url, [...sqliteMigrations, ...nextSteps('', steps)])
  if (url.startsWith('postgres'))
    return openPostgresMigrator(url, (s) => [...migrationsFor(s), ...nextSteps(`${s}.`, steps)])
  return openMariadbMigrator(url, [...mariadbMigrations, ...nextSteps('', steps, 'IF NOT EXISTS')])
}

function nextSteps(place: string, steps: NextSteps, ifMissing = ''): readonly Migration[] {
  const latest = sqliteMigrations.at(-1)!.number
  const allowing: Migration = {
    number: latest + 1,
    name: 'synthetic',
    oldest: latest,
    statements: [
      `ALTER TABLE ${place}job_history ADD COLUMN ${ifMissing} synthetic_mark INTEGER`,
      `CREATE TABLE ${ifMissing} ${place}synthetic_note (id INTEGER PRIMARY KEY, note VARCHAR(64) NOT NULL)`,
      `CREATE INDEX ${ifMissing} synthetic_note_note ON ${place}synthetic_note (note)`,
    ],
  }
  if (steps === 'allowing') return [allowing]
  return [allowing, { number: latest + 2, name: 'refusing', statements: [] }]
}
