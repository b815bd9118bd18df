import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, test } from 'vitest'
import { startReceiver } from '../../../test/support/robots/index.ts'
import { createPrinter } from '../print.ts'
import { run } from '../run.ts'

/** What people try before they rely on it: a channel, their database, a command line with a slip in it. */

const folder = mkdtempSync(join(tmpdir(), 'signalbox-trying-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function signalbox(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(args, createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

test('a channel is tested from this machine, and its mistake is shown without its secret', async () => {
  await using receiver = await startReceiver()
  const file = join(folder, 'channel.json')
  const channel = { type: 'webhook', url: receiver.url, secret: receiver.secret }
  writeFileSync(file, JSON.stringify(channel))
  const here = ['--allow-private', '127.0.0.0/8']
  const sent = await signalbox('monitor', 'test', file, ...here)
  assert.deepEqual([sent.code, sent.err], [0, ''])
  assert.match(sent.out, /^webhook .* accepted a test message/)

  const refused = await signalbox('monitor', 'test', file)
  assert.deepEqual([refused.code, refused.out], [1, ''])
  assert.match(refused.err, /^signalbox: the channel: .*private.*\n$/)
  const told = await signalbox('monitor', 'test', file, '--json')
  assert.equal(told.code, 1)
  assert.equal(JSON.parse(told.out).ok, false)

  writeFileSync(file, '{"type":"webhook","secret":"CANARY')
  const broken = await signalbox('monitor', 'test', file)
  assert.equal(broken.code, 2)
  assert.match(broken.err, /channel.* does not contain JSON\.\n$/)
  for (const { out, err } of [sent, refused, told, broken])
    assert.doesNotMatch(out + err, /CANARY|receiver-secret/)
})

test('bench measures a module in a separate namespace, and leaves nothing behind', async () => {
  const file = join(folder, 'mine.db')
  const database = `sqlite:${file}`
  await signalbox('add', 'mine', '--database', database)
  const modules = [
    ['jobs', ['add', 'add, 50 at once', 'addMany of 500', 'drain', 'transaction', 'pick-up']],
    ['locks', ['acquire and release', 'acquire and release, 50 at once', 'hand-over']],
    ['once', ['claim and done', 'claim and done, 50 at once', 'claim again']],
  ] as const
  const measure = async ([module, cases]: (typeof modules)[number]) => {
    const { code, out, err } = await signalbox(
      'bench',
      module,
      '--seconds=1',
      '--json',
      '--database',
      database,
    )
    assert.deepEqual([code, err], [0, ''])
    const report = JSON.parse(out)
    assert.deepEqual([report.module, report.database], [module, database])
    assert.deepEqual(
      report.cases.map(({ name }: { name: string }) => name),
      cases,
    )
    for (const line of report.cases) assert.ok(line.count > 0 && line.perSecond > 0, JSON.stringify(line))
    assert.ok(report.cases[0].rawPerSecond > 0)
  }
  await Promise.all(modules.map(measure))
  const left = new DatabaseSync(file, { readOnly: true })
  const tables = left
    .prepare(`SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
              WHERE m.type = 'table' AND c.name = 'namespace'`)
    .all() as { name: string }[]
  assert.ok(tables.length > 10)
  for (const { name } of tables) {
    const rows = left.prepare(`SELECT namespace FROM ${name} WHERE namespace LIKE 'bench-%'`).all()
    assert.deepEqual(rows, [], name)
  }
  assert.equal(left.prepare('SELECT count(*) AS count FROM job_queue').get()!.count, 1)
  const own = left.prepare(`SELECT name FROM sqlite_schema WHERE name LIKE 'signalbox_bench%'`).all()
  assert.deepEqual(own, [])
  left.close()
})

test('a missing database is reported and not created', async () => {
  const file = join(folder, 'nowhere.db')
  for (const words of ['jobs ls', 'queues ls', 'locks ls', 'schedules ls', 'top --once', 'jobs show x']) {
    const { code, out, err } = await signalbox(...words.split(' '), '--database', `sqlite:${file}`)
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /^signalbox: There is no database ".*nowhere\.db"\. Name it with --database/)
  }
  assert.equal(existsSync(file), false)
})

test('with --json a mistake is one line of JSON with the code, on standard error', async () => {
  const said = async (...args: string[]) => {
    const { code, out, err } = await signalbox(...args)
    assert.equal(out, '')
    assert.equal(err.indexOf('\n'), err.length - 1)
    return [code, JSON.parse(err)] as const
  }
  const [usage, unknown] = await said('jobs', 'lss', '--json')
  assert.deepEqual([usage, unknown.code], [2, 'invalid_argument'])
  assert.match(unknown.message, /^unknown command 'lss' \(Did you mean ls\?\)$/)
  const database = `sqlite:${join(folder, 'jobs.db')}`
  await signalbox('add', 'x', '--database', database)
  assert.deepEqual(await said('jobs', 'show', 'nope', '--json', '--database', database), [
    1,
    { code: 'not_found', message: 'There is no job "nope". It was never added, or it was deleted.' },
  ])
  const [failure, gone] = await said('queues', 'ls', '--json', '--url', 'http://127.0.0.1:9')
  assert.deepEqual([failure, gone.code], [1, 'store_unavailable'])
  assert.match(gone.message, /at http:\/\/127\.0\.0\.1:9: the server cannot be reached/)
  // The words behind -- are the command's own.
  const lock = ['lock', 'a', 'b', '--database', database, '--', 'true', '--json']
  assert.deepEqual(await signalbox(...lock), { code: 0, out: '', err: '' })
})

test('lock --json reports the outcome at the end', async () => {
  const database = `sqlite:${join(folder, 'lock.db')}`
  const flags = ['--node', 'n1', '--json', '--database', database]
  const { code, out } = await signalbox('lock', 'deploy', 'eu', ...flags, '--', 'sh', '-c', 'exit 3')
  const { token, ...end } = JSON.parse(out)
  assert.deepEqual(
    [code, end],
    [3, { operation: 'deploy', resource: 'eu', node: 'n1', status: 'released', exitCode: 3 }],
  )
  assert.ok(Number.isSafeInteger(token))
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('signalbox')),
    [],
  )
})
