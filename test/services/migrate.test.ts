import assert from 'node:assert/strict'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { test } from 'vitest'
import { createPrinter } from '../../src/cli/print.ts'
import { run } from '../../src/cli/run.ts'
import { open } from '../../src/index.ts'
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
      assert.match(
        before.out,
        / has no schema yet\npending 1 jobs\npending 2 access\npending 3 locks\npending 4 once\npending 5 monitor\npending 6 audit\n$/,
      )
      await assert.rejects(open(database.url), { code: 'schema_missing' })

      // Several that start at once, as servers of one deploy do.
      const runs = await Promise.all([1, 2, 3].map(() => migrate('up', '--json', '--database', database.url)))
      assert.deepEqual(
        runs.map(({ code, err }) => [code, err]),
        runs.map(() => [0, '']),
      )
      assert.deepEqual(
        runs.flatMap(({ out }) => JSON.parse(out).applied),
        [
          { number: 1, name: 'jobs' },
          { number: 2, name: 'access' },
          { number: 3, name: 'locks' },
          { number: 4, name: 'once' },
          { number: 5, name: 'monitor' },
          { number: 6, name: 'audit' },
        ],
      )

      const after = await migrate('status', '--database', database.url)
      assert.equal(after.code, 0)
      assert.ok(after.out.includes(`${host}${pathname} is up to date: schema 6`), after.out)
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
