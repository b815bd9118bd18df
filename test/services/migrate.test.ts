import assert from 'node:assert/strict'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { test } from 'vitest'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { copy } from '../../src/copy/index.ts'
import { open } from '../../src/index.ts'
import { requireSchema } from '../../src/storage/migration-plan.ts'
import { openBackend } from '../../src/storage/open.ts'
import { mariadbCaller, postgresCaller, sqliteCaller } from '../conformance/callers.ts'
import { ownSqlite } from '../conformance/candidates.ts'
import { aJob, runningJob, verdictOf } from '../conformance/jobs/making.ts'
import { openNextMigrator } from '../support/next-release.ts'
import { hasService, ownMariadb, ownPostgres } from '../support/services/own.ts'

/** Runs `signalbox migrate …` in this process. Returns its output. */
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

/** All steps so far; both have the same. */
const steps = [
  { number: 1, name: 'baseline' },
  { number: 2, name: 'fleet' },
  { number: 3, name: 'counts' },
]

for (const { name, own, runSql } of [
  { name: 'postgres', own: ownPostgres, runSql: runPostgres },
  { name: 'mariadb', own: ownMariadb, runSql: runMariadb },
] as const) {
  test.runIf(hasService(name))(`migrate turns an empty ${name} into a schema that jobs run on`, async () => {
    await using database = await own()
    const { password, host, pathname } = new URL(database.url)

    const before = await migrate('status', '--database', database.url)
    assert.equal(before.code, 1, before.err)
    const pending = steps.map(({ number, name }) => `pending ${number} ${name}\n`).join('')
    assert.ok(before.out.endsWith(` has no schema yet\n${pending}`), before.out)
    await assert.rejects(open(database.url), { code: 'schema_missing' })

    // Several processes that start at once, as servers of one deploy do.
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
  })

  test.runIf(hasService(name))(`the output of migrate sql for ${name} can be run by hand`, async () => {
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

/** The first tables of a database that the unreleased versions made, as its own version wrote them. */
const beforeBaseline = `
  CREATE TABLE signalbox_migration (number INTEGER PRIMARY KEY, name VARCHAR(191) NOT NULL, applied_at BIGINT NOT NULL);
  INSERT INTO signalbox_migration (number, name, applied_at) VALUES (1, 'jobs', 1), (2, 'access', 1), (3, 'locks', 1);
  CREATE TABLE signalbox_meta (%KEY% VARCHAR(64) PRIMARY KEY, value VARCHAR(191) NOT NULL);
  INSERT INTO signalbox_meta VALUES ('store_id', 'old'), ('oldest_schema', '1 of 3');`

for (const { name, own, connect, key } of [
  { name: 'sqlite', own: ownSqlite, connect: sqliteCaller, key: 'key' },
  { name: 'postgres', own: ownPostgres, connect: postgresCaller, key: 'key' },
  { name: 'mariadb', own: ownMariadb, connect: mariadbCaller, key: 'name' },
] as const) {
  test.runIf(name === 'sqlite' || hasService(name))(
    `on ${name} a database older than the baseline is refused with instructions, and stays as it was`,
    async () => {
      await using database = await own()
      await using db = await connect(database.url)
      for (const statement of beforeBaseline.replace('%KEY%', key).split(';').slice(0, -1))
        await db.exec(statement)
      const refusal = {
        code: 'schema_outdated',
        message: /made by an unreleased version.* before the baseline.* start with an empty database\.\n?$/,
      }
      for (const isMigrating of [false, true])
        await assert.rejects(open(database.url, { migrate: isMigrating }), refusal)
      const up = await migrate('up', '--database', database.url)
      assert.equal(up.code, 1)
      assert.match(up.err, refusal.message)
      await using empty = await ownSqlite()
      await using full = await ownSqlite()
      await (await open(full.url)).close()
      await assert.rejects(copy(database.url, empty.url), refusal)
      await assert.rejects(copy(full.url, database.url), refusal)
      const noted = await db.exec('SELECT number FROM signalbox_migration')
      assert.equal(noted.length, 3)
    },
  )

  test.runIf(name === 'sqlite' || hasService(name))(
    `jobs of this schema survive the next migration on ${name}`,
    async () => {
      await using database = await own()
      const opened = () => openBackend(database.url, { namespace: 'n', migrate: true })
      await using before = await opened()
      await before.jobs.settle([verdictOf(await runningJob(before))])
      const held = await runningJob(before)
      const [waiting] = await before.jobs.add([aJob()])

      await using next = openNextMigrator(database.url)
      const { current, latest, pending, isRunnable } = await next.status()
      assert.deepEqual([current, latest, isRunnable], [steps.length, steps.length + 1, false])
      assert.deepEqual(pending, [{ number: steps.length + 1, name: 'synthetic' }])
      assert.throws(() => requireSchema({ ...status, current, latest, pending }), { code: 'schema_outdated' })
      assert.deepEqual(await next.up(), pending)
      assert.deepEqual(await next.up(), [])
      assert.equal((await next.status()).isRunnable, true)

      await using after = await opened()
      assert.deepEqual(await after.jobs.settle([verdictOf(held)]), [true])
      assert.equal((await after.jobs.find(waiting!.id))?.state, 'ready')
      assert.equal((await after.jobs.list({ limit: 10 })).length, 3)
    },
  )
}

const status = { isRunnable: false, isBeforeBaseline: false }

test.runIf(hasService('postgres'))('migrate creates the schema that the address names', async () => {
  await using database = await ownPostgres()
  const url = `${database.url}?schema=own_jobs`
  assert.equal((await migrate('up', '--database', url)).code, 0)
  assert.equal((await migrate('status', '--database', url)).code, 0)
  assert.equal((await migrate('status', '--database', database.url)).code, 1)
})

test.runIf(hasService('postgres'))('a user who may not create tables learns what to do', async () => {
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
    assert.match(
      err,
      /^signalbox: This user may not create tables in the schema\. [^\n]*permission denied[^\n]*\n$/,
    )
    assert.doesNotMatch(err, /CANARY/)
  } finally {
    await runPostgres(database.url, `DROP ROLE ${role}`)
  }
})
