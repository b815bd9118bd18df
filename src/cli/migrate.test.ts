import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, test } from 'vitest'
import { createPrinter } from './print.ts'
import { run } from './run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-migrate-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** All of them, so far. */
const steps = [
  { number: 1, name: 'baseline' },
  { number: 2, name: 'fleet' },
  { number: 3, name: 'counts' },
]
const latest = steps.length
const linesOf = (word: string) => steps.map(({ number, name }) => `${word} ${number} ${name}\n`).join('')

let files = 0
function freshFile(): string {
  return join(folder, `${files++}.db`)
}

/** Runs a command line in this process, with what it printed. */
async function migrate(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(['migrate', ...args], createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

test('a database without a schema is an answer, not an error: status lists pending steps and exits 1', async () => {
  const file = freshFile()
  const { code, out, err } = await migrate('status', '--database', `sqlite:${file}`)
  assert.equal(code, 1)
  assert.equal(out, `sqlite:${file} has no schema yet\n${linesOf('pending')}`)
  assert.equal(err, '')
  assert.equal(existsSync(file), false, 'asking made a database')
})

test('up applies the pending steps, once, and status then exits 0', async () => {
  const database = `sqlite:${freshFile()}`
  assert.deepEqual(await migrate('up', '--database', database), {
    code: 0,
    out: `${linesOf('applied')}${database} is up to date: schema ${latest}\n`,
    err: '',
  })
  const upToDate = { code: 0, out: `${database} is up to date: schema ${latest}\n`, err: '' }
  assert.deepEqual(await migrate('up', '--database', database), upToDate)
  assert.deepEqual(await migrate('status', '--database', database), upToDate)
})

test('processes that migrate one database at once apply each step once between them', async () => {
  const database = `sqlite:${freshFile()}`
  const runs = await Promise.all(
    Array.from({ length: 4 }, () => migrate('up', '--json', '--database', database)),
  )
  assert.deepEqual(
    runs.flatMap(({ out }) => JSON.parse(out).applied),
    steps,
  )
})

test('--json answers with one line for programs', async () => {
  const database = `sqlite:${freshFile()}`
  const ask = async (action: string) => {
    const { out } = await migrate(action, '--json', '--database', database)
    assert.equal(out.indexOf('\n'), out.length - 1)
    return JSON.parse(out)
  }
  assert.deepEqual(await ask('status'), {
    database,
    upToDate: false,
    isRunnable: false,
    isBeforeBaseline: false,
    current: 0,
    latest,
    pending: steps,
  })
  assert.deepEqual(await ask('up'), { database, applied: steps, current: latest, latest })
  assert.deepEqual(await ask('status'), {
    database,
    upToDate: true,
    isRunnable: true,
    isBeforeBaseline: false,
    current: latest,
    latest,
    pending: [],
  })
  assert.match((await ask('sql')).sql, /CREATE TABLE job_queue/)
})

test('the output of migrate sql can be run by hand, and is then up to date', async () => {
  const file = freshFile()
  const { code, out } = await migrate('sql', '--database', `sqlite:${file}`)
  assert.equal(code, 0)
  assert.equal(existsSync(file), false)
  const db = new DatabaseSync(file)
  db.exec(out)
  db.close()
  assert.equal((await migrate('status', '--database', `sqlite:${file}`)).code, 0)
  assert.deepEqual(
    JSON.parse((await migrate('up', '--json', '--database', `sqlite:${file}`)).out).applied,
    [],
  )
})

test('a schema of a newer Signalbox is neither up to date nor changed', async () => {
  const file = freshFile()
  const database = `sqlite:${file}`
  await migrate('up', '--database', database)
  const db = new DatabaseSync(file)
  db.exec(`INSERT INTO signalbox_migration (number, name, applied_at) VALUES (99, 'later', 0)`)
  db.close()
  const status = await migrate('status', '--database', database)
  assert.equal(status.code, 1)
  assert.match(status.out, new RegExp(`has schema 99, newer than this Signalbox knows \\(${latest}\\)`))
  const up = await migrate('up', '--database', database)
  assert.equal(up.code, 1)
  assert.match(up.err, /^signalbox: This database has schema 99.*Upgrade Signalbox here\.\n$/)
})

test('a newer schema that this Signalbox can use is reported and accepted', async () => {
  const file = freshFile()
  const database = `sqlite:${file}`
  await migrate('up', '--database', database)
  const db = new DatabaseSync(file)
  db.exec(`INSERT INTO signalbox_migration (number, name, applied_at) VALUES (99, 'later', 0);
           UPDATE signalbox_meta SET value = '${latest} of 99' WHERE key = 'oldest_schema'`)
  db.close()
  for (const action of ['status', 'up']) {
    assert.deepEqual(await migrate(action, '--database', database), {
      code: 0,
      out: `${database} has schema 99, newer than this Signalbox (${latest}), which may still work on it\n`,
      err: '',
    })
  }
  const { out } = await migrate('status', '--json', '--database', database)
  const { upToDate, isRunnable } = JSON.parse(out)
  assert.deepEqual([upToDate, isRunnable], [false, true])
})

test('a schema from before the baseline is refused with instructions, and left as it is', async () => {
  const file = freshFile()
  const database = `sqlite:${file}`
  const db = new DatabaseSync(file)
  db.exec(`CREATE TABLE signalbox_migration (number INTEGER PRIMARY KEY, name TEXT, applied_at INTEGER);
           INSERT INTO signalbox_migration VALUES (1, 'jobs', 0), (2, 'access', 0);
           CREATE TABLE signalbox_meta (key TEXT PRIMARY KEY, value TEXT)`)
  db.close()
  const said =
    /was made by an unreleased version of Signalbox, before the baseline .* start with an empty database\.\n$/
  const status = await migrate('status', '--database', database)
  assert.equal(status.code, 1)
  assert.match(status.out, said)
  const up = await migrate('up', '--database', database)
  assert.deepEqual([up.code, up.out], [1, ''])
  assert.match(up.err, said)
  const { isBeforeBaseline, pending } = JSON.parse(
    (await migrate('status', '--json', '--database', database)).out,
  )
  assert.deepEqual([isBeforeBaseline, pending], [true, []])
})

test('the steps for a server are printed without connecting to one', async () => {
  const postgres = await migrate('sql', '--database', 'postgres://nobody@127.0.0.1:1/nowhere?schema=jobs')
  assert.equal(postgres.code, 0)
  assert.match(postgres.out, /CREATE TABLE "jobs"\.job_queue/)
  const mariadb = await migrate('sql', '--database', 'mysql://nobody@127.0.0.1:1/nowhere')
  assert.equal(mariadb.code, 0)
  assert.match(mariadb.out, /CREATE TABLE IF NOT EXISTS job_queue/)
})

test('an unreachable server is one clear line and a failure', async () => {
  for (const scheme of ['postgres', 'mysql']) {
    for (const action of ['status', 'up']) {
      const { code, out, err } = await migrate(action, '--database', `${scheme}://u@127.0.0.1:1/nowhere`)
      assert.equal(code, 1)
      assert.equal(out, '')
      assert.match(err, /^signalbox: [^\n]*ECONNREFUSED[^\n]*\n$/)
    }
  }
})

test('a password in the address is never printed, however wrong the address is', async () => {
  for (const address of [
    'postgres://u:CANARY@127.0.0.1:1/nowhere',
    'postgres://127.0.0.1:1/nowhere?user=u&password=CANARY',
    'mysql://u:CANARY@127.0.0.1:1/nowhere',
    'mysql://u:CANARY@127.0.0.1:1',
    'mysql://u:CANARY@127.0.0.1:1/nowhere?nope=1',
    'postgres://u:CANARY@[::x',
    'oracle://u:CANARY@h/x',
    'u:CANARY@h/x',
  ]) {
    for (const action of ['status', 'up', 'sql']) {
      for (const json of [[], ['--json']]) {
        const { out, err } = await migrate(action, ...json, '--database', address)
        assert.doesNotMatch(out + err, /CANARY/)
      }
    }
  }
})

test('every mistake in the command line is one clear line and exit code 2', async () => {
  for (const [args, message] of [
    [[], /missing required argument 'action'/],
    [['down'], /'down' is invalid.*up, status, sql/],
    [['up', 'now'], /too many arguments/],
    [['up', '--nope'], /unknown option '--nope'/],
    [['up', '--database'], /argument missing/],
    [['up', '--database', ''], /--database must be sqlite:FILE/],
    [['up', '--database', 'memory:'], /no schema to migrate in "memory:"/],
    [['up', '--database', 'sqlite:'], /must name a file/],
  ] as const) {
    const { code, out, err } = await migrate(...args)
    assert.equal(code, 2, err)
    assert.equal(out, '')
    assert.match(err, message)
    assert.match(err, /^signalbox: [^\n]+\n$/)
  }
})

test('migrate reports each step before it begins', async () => {
  const { openMigrator } = await import('../storage/index.ts')
  await using migrator = await openMigrator(`sqlite:${freshFile()}`)
  const told: string[] = []
  await migrator.up(({ number, name }, at, count) => told.push(`${number} ${name}: ${at} of ${count}`))
  assert.deepEqual(
    told,
    steps.map(({ number, name }, at) => `${number} ${name}: ${at} of ${latest}`),
  )
})
