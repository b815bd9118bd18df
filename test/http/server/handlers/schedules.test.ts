import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { createClient } from '../../../../src/http/client/index.ts'
import { createServer } from '../../../../src/http/server/index.ts'
import { type Box, isSignalboxError, open } from '../../../../src/index.ts'
import { createFolder } from '../../../support/services/folder.ts'

/** Long enough for a loaded machine; nothing waits so long where all is well. */
const deadlineMs = 15_000

async function until<Value>(look: () => Promise<Value | undefined>): Promise<Value> {
  for (const deadline = Date.now() + deadlineMs; ; await sleep(20)) {
    const value = await look()
    if (value !== undefined) return value
    assert.ok(Date.now() < deadline, 'it came in time')
  }
}

async function serve(box: Box) {
  const server = createServer({ box, port: 0 })
  return { server, url: (await server.listen()).url as `http://${string}` }
}

test('schedules are set, listed, paused, resumed, run and removed over HTTP', async () => {
  await using box = await open('memory:')
  const { server, url } = await serve(box)
  await using _ = server
  await using remote = await open(url)
  const { schedules } = remote.jobs
  const made = await schedules.set('morning/report ✓', {
    cron: '0 9 * * 1-5',
    timeZone: 'Asia/Shanghai',
    catchUp: 'all',
    endAt: new Date(Date.UTC(2100, 0)),
    job: { kind: 'report', payload: { to: 'team' }, queue: 'reports', tags: ['daily'] },
  })
  assert.deepEqual(made, await box.jobs.schedules.find('morning/report ✓'))
  assert.deepEqual([made.cron, made.timeZone, made.everyMs], ['0 9 * * 1-5', 'Asia/Shanghai', null])
  assert.ok(made.nextAt! > Date.now())
  assert.deepEqual(await schedules.find('morning/report ✓'), made)
  assert.equal(await schedules.find('other'), undefined)
  assert.deepEqual(await schedules.list({ limit: 1 }), { items: [made], cursor: null })
  assert.equal((await schedules.pause('morning/report ✓')).paused, true)
  const { id } = await schedules.run('morning/report ✓')
  const { payload, schedule } = (await remote.jobs.find(id))!
  assert.deepEqual([payload, schedule], [{ to: 'team' }, { name: 'morning/report ✓', slotAt: null }])
  assert.deepEqual((await remote.jobs.list()).items[0]!.schedule, schedule)
  const resumed = await schedules.resume('morning/report ✓')
  assert.deepEqual([resumed.paused, resumed.nextAt], [false, made.nextAt])
  assert.equal(await schedules.remove('morning/report ✓'), true)
  assert.equal(await schedules.remove('morning/report ✓'), false)
  await assert.rejects(schedules.run('morning/report ✓'), (error) => isSignalboxError(error, 'not_found'))
  const acts = (await createClient(url).audit.list()).items.map(({ action }) => action)
  for (const act of ['set', 'pause', 'run', 'resume', 'remove'])
    assert.ok(acts.includes(`schedule.${act}`), `schedule.${act} is in the audit`)
})

test('a scheduled job may have all options of a job that is added by hand', async () => {
  await using box = await open('memory:')
  const { server, url } = await serve(box)
  await using _ = server
  await using remote = await open(url)
  const lock = { operation: 'pull', resource: 'nginx' }
  const made = await remote.jobs.schedules.set('pull', {
    everyMs: '1h',
    job: { kind: 'pull', limitKey: 'tenant-1', lock, timeoutMs: '5s', backoff: { factor: 3 } },
  })
  const { limitKey, backoff } = made.job
  assert.deepEqual([limitKey, made.job.lock, backoff.factor], ['tenant-1', lock, 3])
  const { id } = await remote.jobs.schedules.run('pull')
  const job = (await remote.jobs.find(id))!
  assert.deepEqual([job.limitKey, job.lock, job.timeoutMs, job.backoff.factor], ['tenant-1', lock, 5_000, 3])
})

test('a mistake in a schedule is reported at its field, also by the server', async () => {
  await using box = await open('memory:')
  const { server, url } = await serve(box)
  await using _ = server
  const ask = async (body: object) => {
    const reply = await fetch(`${url}/v1/schedules`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: reply.status, ...((await reply.json()) as { code: string; detail: string }) }
  }
  for (const [when, message] of [
    [{ cron: '0 0 30 2 *' }, /names no day that exists/],
    [{ cron: '0 9 * * *', timeZone: 'Nowhere/Land' }, /timeZone/],
    [{ everyMs: 0 }, /everyMs/],
    [{}, /either cron or everyMs/],
  ] as const) {
    const { status, code, detail } = await ask({ name: 's', ...when, job: { kind: 'k' } })
    assert.deepEqual([status, code], [400, 'invalid_argument'])
    assert.match(detail, message)
  }
  assert.deepEqual((await box.jobs.schedules.list()).items, [])
})

test('a run requested twice with one key adds one job', async () => {
  await using box = await open('memory:')
  const { server, url } = await serve(box)
  await using _ = server
  await box.jobs.schedules.set('s', { everyMs: '1d', job: { kind: 'k' } })
  const run = async () => {
    const headers = { 'idempotency-key': 'once' }
    const reply = await fetch(`${url}/v1/schedules/s/run`, { method: 'POST', headers })
    return ((await reply.json()) as { id: string }).id
  }
  assert.equal(await run(), await run())
  assert.equal((await box.jobs.list()).items.length, 1)
})

test('a server runs the schedules of namespaces without requests', async () => {
  await using folder = createFolder('schedules')
  const url = `sqlite:${folder.path}/store.db` as const
  {
    // Boxes without a worker run nothing.
    await using box = await open(url, { namespace: 'quiet' })
    await box.jobs.schedules.set('tick', { everyMs: 100, job: { kind: 'tick' } })
    await sleep(250)
    assert.deepEqual((await box.jobs.list()).items, [])
  }
  await using served = await open(url)
  const { server } = await serve(served)
  await using _ = server
  const quiet = served.backend.within('quiet')
  const job = await until(async () => (await quiet.jobs.list({ limit: 1 }))[0])
  assert.equal(job.kind, 'tick')
  // Also where one is set while it serves, and where the last one was paused meanwhile.
  await using later = await open(url, { namespace: 'later' })
  await later.jobs.schedules.set('tick', { everyMs: 100, job: { kind: 'tock' } })
  await until(async () => (await later.jobs.list()).items[0])
})

test('a box runs schedules from the start of its first worker until the stop of its last', async () => {
  await using box = await open('memory:')
  const seen = Promise.withResolvers<void>()
  const worker = box.jobs.worker({ handlers: { tick: () => seen.resolve() } })
  await box.jobs.schedules.set('tick', { everyMs: 100, job: { kind: 'tick' } })
  await sleep(250)
  assert.equal((await box.jobs.schedules.find('tick'))!.lastSlotAt, null)
  await worker.start()
  await seen.promise
  await worker.stop()
  await until(async () => {
    const { lastSlotAt } = (await box.jobs.schedules.find('tick'))!
    await sleep(300)
    return (await box.jobs.schedules.find('tick'))!.lastSlotAt === lastSlotAt ? true : undefined
  })
})
