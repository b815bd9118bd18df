import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createTcpServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open, type RemoteBox, type RemoteUrl } from 'signalbox'
import { createServer, type Server } from 'signalbox/server'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'

/** A server that goes away and comes back on the same port, as in a deployment; its store stays. */
interface Place extends AsyncDisposable {
  readonly url: RemoteUrl
  readonly box: Box
  stop(): Promise<void>
  start(): Promise<void>
}

async function createPlace(): Promise<Place> {
  const box = await open('memory:', { contention: false })
  const port = await freePort()
  let server: Server | undefined
  const place: Place = {
    url: `http://127.0.0.1:${port}`,
    box,
    async stop() {
      await server?.close({ graceMs: 0 })
      server = undefined
    },
    async start() {
      server = createServer({ box, port })
      await server.listen()
    },
    async [Symbol.asyncDispose]() {
      await place.stop()
      await box.close()
    },
  }
  await place.start()
  return place
}

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

const awayMs = 6_000
const report = {
  taskId: 't',
  source: 's',
  timeSlot: '1',
  observedAt: 1,
  venues: [{ venueId: 'v', state: { price: 1 } }],
}

test('every method of a remote box survives a server that is away for six seconds', async () => {
  await using place = await createPlace()
  await using remote = await open(place.url)
  const [inHand] = await claimedJobs(remote, 4)
  const { token } = await runClaim(remote, 'claimed before')
  const held = await remote.locks.hold('deploy', 'held before', { node: 'n' })
  await place.stop()

  const verbs: Record<string, Promise<unknown>> = {
    add: remote.jobs.add('mail', 1),
    addMany: remote.jobs.addMany([{ kind: 'mail' }, { kind: 'mail' }]),
    claim: remote.jobs.claim({ queues: ['default'] }),
    ack: remote.jobs.ack(inHand!),
    list: remote.jobs.list(),
    stats: remote.jobs.stats(),
    pause: remote.jobs.pause('other'),
    report: remote.monitor.report(report),
    silence: remote.monitor.silence({ match: { venueId: { prefix: 'v' } }, forMs: '1h' }),
    hold: remote.locks.hold('deploy', 'eu', { node: 'n' }),
    release: held.release(),
    singleFlight: remote.locks.singleFlight('build', 'x', {
      node: 'n',
      check: () => undefined,
      run: () => 'built',
    }),
    run: remote.once.run('charge', () => 'charged'),
    done: remote.once.done('claimed before', token, 'result'),
    seen: remote.once.seen({ subject: ['s'], state: 1 }),
    submit: remote.dispatch.submit({ service: 'nmt', payload: 1 }),
    tasks: remote.dispatch.tasks(),
  }
  const ends = Promise.all(
    Object.entries(verbs).map(([name, verb]) =>
      verb.then(
        () => undefined,
        (error: unknown) => `${name}: ${error}`,
      ),
    ),
  )
  await sleep(awayMs)
  await place.start()
  assert.deepEqual(
    (await within(10_000, 'the verbs', ends)).filter((end) => end !== undefined),
    [],
  )
  assert.deepEqual(await verbs.singleFlight, 'built')
  assert.deepEqual(await verbs.run, { ran: true, result: 'charged' })
  const mails = (await place.box.jobs.list({ limit: 100 })).items.filter(({ kind }) => kind === 'mail')
  assert.equal(mails.length, 3)
}, 40_000)

test('a worker of a remote box continues after the server was away', async () => {
  await using place = await createPlace()
  await using remote = await open(place.url)
  const done = new Set<string>()
  const worker = remote.jobs.worker({
    concurrency: 4,
    pollMs: 100,
    handlers: {
      mail: async (job) => {
        await sleep(20)
        done.add(job.id)
      },
    },
  })
  await worker.start()
  const before = await place.box.jobs.addMany(Array.from({ length: 50 }, () => ({ kind: 'mail' })))
  while (done.size < 10) await sleep(10)
  await place.stop()
  await sleep(1_500)
  const after = await place.box.jobs.addMany(Array.from({ length: 20 }, () => ({ kind: 'mail' })))
  await place.start()
  const isOver = async () =>
    (await place.box.jobs.stats()).every(({ ready, running }) => ready + running === 0)
  await within(
    20_000,
    'all jobs',
    (async () => {
      while (!(await isOver())) await sleep(50)
    })(),
  )
  assert.deepEqual([...done].sort(), [...before, ...after].map(({ id }) => id).sort())
  const jobs = (await place.box.jobs.list({ limit: 500 })).items
  assert.deepEqual([...new Set(jobs.map(({ state, attempt }) => `${state} ${attempt}`))], ['completed 1'])
}, 40_000)

test('a call ends at its timeoutMs, and its error names the server, the tries and the time', async () => {
  await using place = await createPlace()
  await using remote = await open(place.url, { timeoutMs: 1_500 })
  await place.stop()
  const begunAt = performance.now()
  await assert.rejects(remote.jobs.add('mail'), (error: { code: string; message: string }) => {
    // If the deadline comes in the middle of the last try, the message also has the error of the try before.
    assert.ok(['store_unavailable', 'timeout'].includes(error.code), error.code)
    assert.match(
      error.message,
      new RegExp(`Tried \\d+ times in 1\\.\\d s at ${place.url}\\.( Before that: .+)?$`),
    )
    return true
  })
  const tookMs = performance.now() - begunAt
  assert.ok(tookMs > 1_000 && tookMs < 3_000, `${tookMs} ms`)
})

test('hold gives up at its own deadline while the server is away, also when it already waits', async () => {
  await using place = await createPlace()
  await using remote = await open(place.url, { timeoutMs: 20_000 })
  await using _ = await remote.locks.hold('deploy', 'eu', { node: 'holder', ttlMs: 60_000 })
  const hold = async (node: string) => {
    const begunAt = performance.now()
    const error = await remote.locks.hold('deploy', 'eu', { node, deadlineMs: 2_500 }).then(
      () => 'granted',
      ({ code }) => code,
    )
    return { error, tookMs: performance.now() - begunAt }
  }
  const waiting = hold('waiting')
  while ((await place.box.locks.inspect({ operation: 'deploy', resource: 'eu' })).waiterCount === 0)
    await sleep(20)
  await place.stop()
  const { error, tookMs } = await hold('asking')
  // The deadline may also fall into a try.
  assert.ok(['store_unavailable', 'timeout'].includes(error), error)
  assert.ok(tookMs < 4_500, `${tookMs} ms`)
  const waited = await waiting
  assert.equal(waited.error, 'timeout')
  assert.ok(waited.tookMs < 6_500, `${waited.tookMs} ms`)
  await place.start()
}, 30_000)

test('hold retries until its own deadline where that is longer than timeoutMs', async () => {
  await using place = await createPlace()
  await using remote = await open(place.url, { timeoutMs: 500 })
  await place.stop()
  const held = remote.locks.hold('deploy', 'eu', { node: 'n', deadlineMs: 10_000, ttlMs: 2_000 })
  await sleep(2_500)
  await place.start()
  const lock = await held
  // Granted after more than its TTL of asking, and not lost.
  await sleep(100)
  assert.equal(lock.signal.aborted, false)
  await lock.release()
}, 20_000)

test('a signal ends hold at once while the server is away', async () => {
  await using place = await createPlace()
  await using remote = await open(place.url)
  await place.stop()
  const controller = new AbortController()
  const reason = new Error('enough')
  setTimeout(() => controller.abort(reason), 200)
  const begunAt = performance.now()
  const holding = remote.locks.hold('deploy', 'eu', { node: 'n', signal: controller.signal })
  await assert.rejects(holding, reason)
  assert.ok(performance.now() - begunAt < 3_000)
})

async function claimedJobs(remote: RemoteBox, count: number) {
  await remote.jobs.addMany(Array.from({ length: count }, () => ({ kind: 'slow', queue: 'slow' })))
  return remote.jobs.claim({ queues: ['slow'], limit: count })
}

async function runClaim(remote: RemoteBox, key: string): Promise<{ token: string }> {
  const claimed = await remote.once.claim(key)
  assert.ok(claimed.status === 'run')
  return claimed
}
