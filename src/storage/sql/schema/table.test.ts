import assert from 'node:assert/strict'
import { test } from 'vitest'
import { migrations as mariadb } from '../../mariadb/schema.ts'
import { migrationsFor } from '../../postgres/schema.ts'
import { migrations as sqlite } from '../../sqlite/schema.ts'

const engines = { postgres: migrationsFor('"box"'), mariadb, sqlite }

/** The statements of an engine that name a table or an index, each on one line. */
function statementsOf(engine: keyof typeof engines, name: string): readonly string[] {
  return engines[engine]
    .flatMap(({ statements }) => statements)
    .map((statement) => statement.replaceAll(/\s+/g, ' '))
    .filter((statement) => new RegExp(`(TABLE|EXISTS|INDEX) ("box"\\.)?${name}\\b`).test(statement))
}

test('each engine makes the same table in its own words', () => {
  assert.deepEqual(statementsOf('postgres', 'job_cancel'), [
    'CREATE TABLE "box".job_cancel ( namespace text COLLATE "C" NOT NULL, job_id text COLLATE "C" NOT NULL, lease_no bigint NOT NULL, PRIMARY KEY (namespace, job_id) )',
  ])
  assert.deepEqual(statementsOf('mariadb', 'job_cancel'), [
    'CREATE TABLE IF NOT EXISTS job_cancel ( namespace VARCHAR(191) NOT NULL, job_id VARCHAR(64) NOT NULL, lease_no BIGINT NOT NULL, PRIMARY KEY (namespace, job_id) ) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin',
  ])
  assert.deepEqual(statementsOf('sqlite', 'job_cancel'), [
    'CREATE TABLE job_cancel ( namespace TEXT NOT NULL, job_id TEXT NOT NULL, lease_no INTEGER NOT NULL, PRIMARY KEY (namespace, job_id) ) STRICT, WITHOUT ROWID',
  ])
})

test('what is of one engine is made by that engine alone', () => {
  assert.equal(statementsOf('mariadb', 'job_dead').length, 1)
  assert.equal(statementsOf('sqlite', 'job_dead').length, 0)
  const [queue] = statementsOf('mariadb', 'job_queue')
  assert.match(queue!, /room VARCHAR\(80\) NOT NULL DEFAULT ' +'/)
  assert.doesNotMatch(statementsOf('postgres', 'job_queue')[0]!, /\broom\b/)
  assert.match(
    statementsOf('sqlite', 'job_queue_unique')[0]!,
    /UNIQUE INDEX .* WHERE unique_key IS NOT NULL$/,
  )
})

test('steps have the same numbers and names on every engine', () => {
  const stepsOf = (engine: keyof typeof engines) =>
    engines[engine].map(({ number, name }) => `${number} ${name}`)
  assert.deepEqual(stepsOf('mariadb'), stepsOf('postgres'))
  assert.deepEqual(stepsOf('sqlite'), stepsOf('postgres'))
})
