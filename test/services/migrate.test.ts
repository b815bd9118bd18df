import assert from 'node:assert/strict'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { test } from 'vitest'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { open } from '../../src/index.ts'
import { openMariadb } from '../../src/storage/mariadb/index.ts'
import { migrations } from '../../src/storage/mariadb/migrations/index.ts'
import { openPostgres } from '../../src/storage/postgres/index.ts'
import { migrationsFor } from '../../src/storage/postgres/migrations/index.ts'
import { hasService, ownMariadb, ownPostgres } from '../support/services/own.ts'

/** Runs `signalbox migrate …` in this process, with what it printed. */
async function migrate(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(['migrate', ...args], createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

async function runPostgres(url: string, sql: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

async function runMariadb(url: string, sql: string): Promise<void> {
  const connection = await createConnection({ uri: url, multipleStatements: true })
  try {
    await connection.query(sql)
  } finally {
    await connection.end()
  }
}

/** All of them, so far; both have the same. */
const steps = [
  { number: 1, name: 'jobs' },
  { number: 2, name: 'access' },
  { number: 3, name: 'locks' },
  { number: 4, name: 'once' },
  { number: 5, name: 'monitor' },
  { number: 6, name: 'audit' },
  { number: 7, name: 'fleet' },
  { number: 8, name: 'comfort' },
  { number: 9, name: 'gates' },
  { number: 10, name: 'lists' },
  { number: 11, name: 'node tokens' },
  { number: 12, name: 'taken fences' },
  { number: 13, name: 'dead notifications' },
]

for (const { name, own, runSql } of [
  { name: 'postgres', own: ownPostgres, runSql: runPostgres },
  { name: 'mariadb', own: ownMariadb, runSql: runMariadb },
] as const) {
  test.runIf(hasService(name))(
    `migrate brings ${name} from nothing to a schema that jobs run on`,
    async () => {
      await using database = await own()
      const { password, host, pathname } = new URL(database.url)

      const before = await migrate('status', '--database', database.url)
      assert.equal(before.code, 1, before.err)
      const pending = steps.map(({ number, name }) => `pending ${number} ${name}\n`).join('')
      assert.ok(before.out.endsWith(` has no schema yet\n${pending}`), before.out)
      await assert.rejects(open(database.url), { code: 'schema_missing' })

      // Several that start at once, as servers of one deploy do.
      const runs = await Promise.all([1, 2, 3].map(() => migrate('up', '--json', '--database', database.url)))
      assert.deepEqual(
        runs.map(({ code, err }) => [code, err]),
        runs.map(() => [0, '']),
      )
      assert.deepEqual(
        runs.flatMap(({ out }) => JSON.parse(out).applied),
        steps,
      )

      const after = await migrate('status', '--database', database.url)
      assert.equal(after.code, 0)
      assert.ok(
        after.out.includes(`${host}${pathname} is up to date: schema ${steps.at(-1)!.number}`),
        after.out,
      )
      if (password !== '') assert.ok(!after.out.includes(password))
      await using box = await open(database.url)
      const { id } = await box.jobs.add('mail', { to: 'ada' })
      assert.equal((await box.jobs.find(id))?.state, 'ready')
    },
  )

  test.runIf(hasService(name))(`what migrate sql prints for ${name} can be run by hand`, async () => {
    await using database = await own()
    const { code, out } = await migrate('sql', '--database', database.url)
    assert.equal(code, 0)
    await runSql(database.url, out)
    assert.equal((await migrate('status', '--database', database.url)).code, 0)
    const up = await migrate('up', '--json', '--database', database.url)
    assert.deepEqual(JSON.parse(up.out).applied, [])
    await using box = await open(database.url)
    const { id } = await box.jobs.add('mail')
    assert.equal((await box.jobs.find(id))?.state, 'ready')
  })
}

const lease = { jobId: 'running', token: '7.0123456789abcdef' }

/** Schema 7 with a job that waits, one that runs and one that has ended, as its own version wrote them. */
const schema7 = {
  postgres: `CREATE TABLE signalbox_migration (
      number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp());
    ${scriptOf(migrationsFor('"public"'))}
    INSERT INTO signalbox_migration (number, name) VALUES (7, 'fleet');
    INSERT INTO job_pending (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, free_count,
      run_at, created_at, updated_at) VALUES ('n', 'waiting', 'mail', 'mail', '{}', 0, 'ready', 0, 5, 0, 1, 1, 1);
    INSERT INTO job_lease (lease_no, namespace, nonce, worker_id, claimed_at, ends_at, job_count, jobs)
      VALUES (7, 'n', '0123456789abcdef', 'w', 1, 9000000000000, 1, ARRAY[
        ROW ('running', 'mail', 'mail', '{}', 0, NULL, 1, 5, 0, 1, 1, NULL, NULL, NULL, 'earlier')::leased_job]);
    INSERT INTO job_history (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, free_count,
      run_at, created_at, finished_at, cancel_ignored)
      VALUES ('n', 'ended', 'mail', 'mail', '{}', 0, 'completed', 1, 5, 0, 1, 1, 2, false);`,
  mariadb: `CREATE TABLE signalbox_migration (
      number INT NOT NULL PRIMARY KEY, name VARCHAR(191) NOT NULL, applied_at BIGINT NOT NULL);
    ${scriptOf(migrations)}
    INSERT INTO signalbox_migration (number, name, applied_at) VALUES (7, 'fleet', 1);
    INSERT INTO job_queue (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, run_at,
      created_at, updated_at, lease_no, lease_nonce, lease_ends_at) VALUES
      ('n', 'waiting', 'mail', 'mail', '{}', 0, 'ready', 0, 5, 1, 1, 1, 0, NULL, NULL),
      ('n', 'running', 'mail', 'mail', '{}', 0, 'running', 1, 5, 1, 1, 1, 7, '0123456789abcdef', 9000000000000);
    INSERT INTO job_history (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts, free_count,
      run_at, created_at, finished_at, lease_no)
      VALUES ('n', 'ended', 'mail', 'mail', '{}', 0, 'completed', 1, 5, 0, 1, 1, 2, 1);`,
} as const

function scriptOf(steps: readonly { readonly number: number; readonly statements: readonly string[] }[]) {
  const before = steps.filter(({ number }) => number <= 7)
  return before.flatMap(({ statements }) => statements.map((statement) => `${statement};`)).join('\n')
}

for (const { name, own, runSql, openStore } of [
  { name: 'postgres', own: ownPostgres, runSql: runPostgres, openStore: openPostgres },
  { name: 'mariadb', own: ownMariadb, runSql: runMariadb, openStore: openMariadb },
] as const) {
  test.runIf(hasService(name))(`jobs of schema 7 live on in the next one on ${name}`, async () => {
    await using database = await own()
    await runSql(database.url, schema7[name])
    await using backend = await openStore(database.url, { namespace: 'n', migrate: true })
    const states = (await backend.jobs.list({ limit: 10 })).map(({ id, state, meta }) => [id, state, meta])
    assert.deepEqual(states, [
      ['waiting', 'ready', null],
      ['running', 'running', null],
      ['ended', 'completed', null],
    ])
    const verdict = { ...lease, attempt: 1, freeCount: 0, delayMs: 0, ranMs: null, result: '1', error: null }
    assert.deepEqual(await backend.jobs.settle([{ ...verdict, state: 'completed' }]), [true])
    assert.equal((await backend.jobs.find('running'))?.result, '1')
    await backend.jobs.retry('ended')
    const request = { queues: ['mail'], kinds: null, workerId: 'w', limit: 10, leaseMs: 60_000 }
    const claimed = await backend.jobs.claim(request)
    assert.deepEqual(
      claimed.map(({ id, meta }) => [id, meta]),
      [
        ['waiting', null],
        ['ended', null],
      ],
    )
  })
}

test.runIf(hasService('postgres'))('migrate makes the schema that the address names', async () => {
  await using database = await ownPostgres()
  const url = `${database.url}?schema=own_jobs`
  assert.equal((await migrate('up', '--database', url)).code, 0)
  assert.equal((await migrate('status', '--database', url)).code, 0)
  assert.equal((await migrate('status', '--database', database.url)).code, 1)
})

test.runIf(hasService('postgres'))('a user who may not make tables is told what would help', async () => {
  await using database = await ownPostgres()
  const role = `signalbox_guest_${process.pid}`
  await runPostgres(
    database.url,
    `CREATE ROLE ${role} LOGIN PASSWORD 'CANARY'; REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
  )
  try {
    const url = new URL(database.url)
    url.username = role
    url.password = 'CANARY'
    const { code, out, err } = await migrate('up', '--database', url.href)
    assert.equal(code, 1)
    assert.equal(out, '')
    assert.match(err, /^signalbox: This user may not make tables there\. [^\n]*permission denied[^\n]*\n$/)
    assert.doesNotMatch(err, /CANARY/)
  } finally {
    await runPostgres(database.url, `DROP ROLE ${role}`)
  }
})
