import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { createJobs } from '../../../jobs/index.ts'
import { openBackend } from '../../../storage/open.ts'
import { createPrinter } from '../../print.ts'
import { run } from '../../run.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-jobs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const database = `sqlite:${join(folder, 'jobs.db')}`

/** Runs a command line in this process, with what it printed. */
async function jobs(...args: readonly string[]) {
  const written = { out: '', err: '' }
  const stdout = { write: (text: string) => (written.out += text) }
  const stderr = { write: (text: string) => (written.err += text) }
  const code = await run(['jobs', ...args, '--database', database], createPrinter(stdout, stderr, {}))
  return { code, ...written }
}

test('jobs are searched, counted and cancelled in bulk from the command line', async () => {
  const backend = await openBackend(database, { namespace: 'default', migrate: true })
  await using service = createJobs({ store: backend.jobs, notifier: backend.notifier })
  const added = await service.addMany(
    Array.from({ length: 12 }, (_, n) => ({ kind: 'mail', payload: { n } })),
  )

  const found = await jobs('list', '--search', 'payload.n:7')
  assert.deepEqual([found.code, found.err], [0, ''])
  assert.match(
    found.out,
    new RegExp(
      `^ID +STATE  QUEUE    KIND  ATTEMPT  AGE +ERROR\n${added[7]!.id}  ready  default  mail  0/5 +\\d+ s\n$`,
    ),
  )
  assert.equal((await jobs('ls', '--kind', 'male')).out, 'No jobs found.\n')
  const page = await jobs('list', '--limit', '2', '--json')
  assert.deepEqual([JSON.parse(page.out).items.length, JSON.parse(page.out).stopped], [2, null])

  const bulk = ['bulk', 'cancel', '--search', 'payload.n:1*']
  assert.equal((await jobs(...bulk, '--dry-run')).out, '3 jobs match: 3 ready\n')
  const done = await jobs(...bulk, '--json')
  const { state, matched, skipped } = JSON.parse(done.out)
  assert.deepEqual([done.code, state, matched, skipped], [0, 'completed', 3, 0])
  assert.equal((await service.find(added[11]!.id))?.state, 'cancelled')
  const [claimed] = await service.claim()
  await service.ack(claimed!)
  assert.match(
    (await jobs('bulk', 'retry', '--search', 'kind:mail', '--dry-run')).out,
    /^\d+ jobs match: \d+ ready, 1 completed, 3 cancelled\. The completed ones would run again; state:dead leaves them out\. Those that are ready, waiting or running would be skipped\n$/,
  )

  for (const [args, word] of [
    [['list', '--search', 'kind:'], 'at column 6'],
    [['list', '--limit', 'many'], '--limit'],
    [['bulk', 'explode', '--search', 'a'], 'explode'],
    [['bulk', 'retry'], '--search'],
  ] as const) {
    const refused = await jobs(...args)
    assert.equal(refused.code, 2, args.join(' '))
    assert.ok(refused.err.includes(word), refused.err)
  }
  await backend.close()
})

test('ls shows the jobs of one state, one queue and one kind', async () => {
  const backend = await openBackend(database, { namespace: 'default', migrate: true })
  await using service = createJobs({ store: backend.jobs, notifier: backend.notifier })
  const added = await service.addMany([
    { kind: 'bill', queue: 'eu' },
    { kind: 'letter', queue: 'eu' },
    { kind: 'bill', queue: 'us' },
  ])
  const [ready, letter, cancelled] = added.map(({ id }) => id)
  await service.cancel(cancelled!)
  const listed = async (...flags: readonly string[]) => {
    const { code, out } = await jobs('ls', ...flags, '--json')
    assert.equal(code, 0)
    return JSON.parse(out).items.map(({ id }: { id: string }) => id)
  }
  assert.deepEqual(await listed('--queue', 'eu'), [letter, ready])
  assert.deepEqual(await listed('--kind', 'bill'), [cancelled, ready])
  assert.deepEqual(await listed('--kind', 'bill', '--state', 'cancelled'), [cancelled])
  const misspelt = await jobs('ls', '--state', 'canceled')
  assert.deepEqual([misspelt.code, /Allowed choices are .*cancelled/.test(misspelt.err)], [2, true])
  await backend.close()
})

test('errors shows the groups of errors, and one of them with its jobs', async () => {
  const backend = await openBackend(database, { namespace: 'default', migrate: true })
  await using service = createJobs({
    store: backend.jobs,
    attempts: backend.attempts,
    notifier: backend.notifier,
  })
  assert.equal((await jobs('errors', '--kind', 'charge')).out, 'No errors found.\n')
  const { id } = await service.add('charge', null, { queue: 'money', maxAttempts: 1 })
  const [job] = await service.claim({ queues: ['money'] })
  await service.nack(job!, { error: new TypeError('order 17 has no price') })
  const [group] = (await service.errorGroups()).items

  const listed = await jobs('errors')
  assert.match(
    listed.out,
    /^GROUP +KIND +ATTEMPTS +LAST +ERROR\n[0-9a-f]{16} {2}charge {2}1 .* TypeError: order 17 has no price\n$/,
  )
  const shown = await jobs('errors', group!.fingerprint)
  assert.match(
    shown.out,
    new RegExp(
      `^group +${group!.fingerprint}\nkind +charge\nattempts +1\n[^]*jobs +${id}\nerror +TypeError: order 17`,
    ),
  )
  assert.deepEqual(JSON.parse((await jobs('errors', '--json')).out).items, [group])
  assert.equal((await jobs('errors', '0123456789abcdef')).code, 1)
  assert.match((await jobs('show', id)).out, /^attempts +1 dead \S+ TypeError: order 17 has no price$/m)
  const retried = await jobs('bulk', 'retry', '--search', `error.group:${group!.fingerprint}`, '--limit', '5')
  assert.match(retried.out, /^completed: 1 matched, 1 done/)
  await backend.close()
})
