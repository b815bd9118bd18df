import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createJobs } from '../../src/jobs/index.ts'
import type { MonitorStore } from '../../src/monitor/monitor-store.ts'
import { notifyJob, notifyQueue } from '../../src/monitor/notification-queue.ts'
import { startReceiver } from '../support/robots/index.ts'
import { createWorld } from './sending-world.ts'

const aJob = (channel: string) => notifyJob('send', { channel }, { delayMs: 0 })
const venues = (count: number, name = 'court') =>
  Array.from({ length: count }, (_, index) => `${name} ${index + 1}`)

test('a sender sends all due notifications, starts their windows, and leaves nothing to do', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const ids = await world.notify(desk, venues(3))
  const sender = await world.sender()
  const records = await world.ended(ids)
  assert.deepEqual(
    records.map(({ status, attempt, possibleRepeat, digestId }) => [
      status,
      attempt,
      possibleRepeat,
      digestId,
    ]),
    ids.map(() => ['sent', 1, false, null]),
  )
  assert.equal(robot.messages.length, 3)
  assert.equal(sender.counts().webhook?.sent, 3)
})

test('a failed digest that is resent in two parts is two messages for a receiver that drops known ids', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  const minute = 60_000
  const config = { type: 'webhook', url: robot.url, secret: robot.secret }
  const desk = await world.subscribe(config, { digestMs: minute, retryInMs: 1.5 * minute })
  robot.misbehave('500')
  await world.sender({ maxDigest: 6 })
  const ids: string[] = []
  for (const [window, count] of [4, 6].entries()) {
    const notified = await world.notify(desk, venues(count, `window ${window}`))
    ids.push(...notified)
    await world.idle()
    world.advance(minute - (world.now() % minute))
    const isTried = async () =>
      (await Promise.all(notified.map(world.record))).every(({ attempt }) => attempt === 1)
    await world.until('all were tried', isTried)
    await world.idle()
  }
  robot.misbehave(null)
  // Both fall due at once, and six are looked at together: the second digest is cut.
  world.advance(2 * minute)
  const records = await world.ended(ids)
  assert.ok(records.every(({ status }) => status === 'sent'))
  const notified = robot.messages.flatMap(({ body }) =>
    body.data.changes.map((change: { venueId: string }) => change.venueId),
  )
  assert.deepEqual(notified.sort(), [...venues(4, 'window 0'), ...venues(6, 'window 1')])
  assert.deepEqual(robot.repeats, [])
})

test('a clock that is set back while a sender looks leaves no notification behind', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  const config = { type: 'webhook', url: robot.url, secret: robot.secret }
  const desk = await world.subscribe(config, { retryInMs: 100 })
  robot.misbehave('500', 1)
  let looks = 0
  const store = new Proxy(world.backend.monitor, {
    get(monitor, name: keyof MonitorStore) {
      if (name !== 'due') return monitor[name].bind(monitor)
      return async (...args: Parameters<MonitorStore['due']>) => {
        // The third look is that of the job which came for the second try.
        if (++looks === 3) world.advance(-1_000)
        return monitor.due(...args)
      }
    },
  })
  await world.sender({}, { store })
  const [id] = await world.notify(desk, venues(1))
  await world.until('it was looked at again', () => looks >= 3)
  await world.idle()
  world.advance(2_000)
  const [record] = await world.ended([id!])
  assert.deepEqual([record?.status, record?.attempt], ['sent', 2])
})

test('a sender notifies one venue in order while others proceed', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ delayMs: 5 })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const ids: string[] = []
  for (let round = 0; round < 6; round++) {
    ids.push(...(await world.notify(desk, venues(5), { from: `${round}`, to: `${round + 1}` })))
  }
  for (let count = 0; count < 3; count++) await world.sender()
  const records = await world.ended(ids)
  assert.ok(records.every(({ status }) => status === 'sent'))
  assert.deepEqual(robot.repeats, [])
  const seen = new Map<string, number[]>()
  for (const { body } of robot.messages) {
    for (const { venueId, to } of body.data.changes) seen.set(venueId, [...(seen.get(venueId) ?? []), to])
  }
  assert.equal(seen.size, 5)
  for (const [venue, states] of seen) assert.deepEqual(states, [1, 2, 3, 4, 5, 6], venue)
})

test('a failing robot is tried three more times with waits, and then the notification is dead', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  robot.misbehave('500')
  const desk = await world.subscribe(
    { type: 'webhook', url: robot.url, secret: robot.secret },
    { retryInMs: 100 },
  )
  const startedAt = performance.now()
  const [id] = await world.notify(desk, ['court 1'])
  const sender = await world.sender()
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'dead')
  assert.equal(record!.attempt, 4)
  assert.match(record!.error!, /HTTP 500/)
  assert.equal(robot.requests, 4)
  assert.ok(performance.now() - startedAt >= 300, 'three waits')
  const { retried, dead, sent, ambiguous } = sender.counts().webhook!
  assert.deepEqual({ retried, dead, sent, ambiguous }, { retried: 3, dead: 1, sent: 0, ambiguous: 0 })

  robot.misbehave(null)
  assert.equal(await world.backend.monitor.replay(id!, aJob(desk.channel)), true)
  const [replayed] = await world.ended([id!])
  assert.equal(replayed!.status, 'sent')
  assert.equal(replayed!.attempt, 1)
  assert.equal(robot.messages.length, 1)
})

test('a robot that fails and recovers gets the message once', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  robot.misbehave('500', 2)
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const [id] = await world.notify(desk, ['court 1'])
  await world.sender()
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'sent')
  assert.equal(record!.attempt, 3)
  assert.equal(record!.possibleRepeat, false, 'it said that it took nothing')
  assert.equal(robot.messages.length, 1)
})

test('a refused notification is dead at once, and the reason contains no secret', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  const secret = 'quite-another-secret'
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret })
  const [id] = await world.notify(desk, ['court 1'])
  await world.sender()
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'dead')
  assert.equal(record!.attempt, 1)
  assert.ok(!record!.error!.includes(secret) && !record!.error!.includes('hooks/monitor'))
})

test('an ended subscription gets nothing more, even if a dead sender had begun to send', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const [begun, waiting] = await world.notify(desk, ['court 1', 'court 2'])
  const { monitor } = world.backend
  const ref = { channel: desk.channel, token: 'died' }
  await monitor.take({ ...ref, leaseMs: 50 })
  const begin = [{ id: begun!, repeat: false }]
  assert.equal(await monitor.proceed(ref, { leaseMs: 50, state: null, ends: [], begin }), true)
  await monitor.unsubscribe(desk.subscriptionId)
  await world.until('its lease is over', async () => (await monitor.due(ref, 1)) === undefined)
  await world.sender()
  const records = await world.ended([begun!, waiting!])
  assert.deepEqual(
    records.map(({ status }) => status),
    ['cancelled', 'cancelled'],
  )
  assert.equal(robot.requests, 0)
})

test('the notifications of an unusable channel are dead with the reason, and block no other channel', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver()
  const { monitor } = world.backend
  const channel = '{"type":"pigeon","url":"https://example.com"}'
  await monitor.subscribe({ id: 'odd', name: 'odd', match: '{}', channel, options: '{}' })
  const [odd] = await world.notify({ subscriptionId: 'odd', channel: 'f'.repeat(64) }, ['court 1'])
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const [fine] = await world.notify(desk, ['court 1'])
  await world.sender()
  const [first, second] = await world.ended([odd!, fine!])
  assert.equal(first!.status, 'dead')
  assert.match(first!.error!, /channel\.type/)
  assert.equal(second!.status, 'sent')
})

test('one dead channel does not slow nine others', async () => {
  await using world = await createWorld({ timeoutMs: 15_000 })
  await using dead = await startReceiver()
  dead.misbehave('hang')
  const robots = await Promise.all(Array.from({ length: 9 }, () => startReceiver()))
  try {
    const lost = await world.subscribe({ type: 'webhook', url: dead.url, secret: dead.secret })
    await world.notify(lost, venues(50))
    const ids: string[] = []
    for (const robot of robots) {
      const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
      ids.push(...(await world.notify(desk, venues(50))))
    }
    const startedAt = performance.now()
    await world.sender()
    const records = await world.ended(ids, 15_000)
    assert.ok(records.every(({ status }) => status === 'sent'))
    assert.ok(performance.now() - startedAt < 15_000, 'sooner than the dead one gives up even once')
  } finally {
    await Promise.all(robots.map((robot) => robot.close()))
  }
})

test('a turn that takes long ends, and another turn continues', async () => {
  await using world = await createWorld({ timeoutMs: 5_000 })
  await using robot = await startReceiver({ delayMs: 10 })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const ids = await world.notify(desk, venues(60))
  await world.sender({ turnMs: 20 })
  const records = await world.ended(ids)
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
  assert.equal(robot.messages.length, 60)
  assert.deepEqual(robot.repeats, [])
})

test('a slow store slows sending and does not stop it', async () => {
  await using world = await createWorld({ timeoutMs: 5_000 })
  await using robot = await startReceiver()
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const ids = await world.notify(desk, venues(12))
  const slow = new Proxy(world.backend.monitor, {
    get(target, name) {
      return async (...args: unknown[]) => {
        if (name === 'rules') await new Promise((resolve) => setTimeout(resolve, 1_100))
        return Reflect.apply(Reflect.get(target, name) as (...given: unknown[]) => unknown, target, args)
      }
    },
  })
  await world.sender({}, { store: slow })
  const records = await world.ended(ids)
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
})

test('a stopping sender records how its messages ended, and the next one sends the rest', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ delayMs: 30 })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const ids = await world.notify(desk, venues(40))
  const first = await world.sender()
  await robot.waitFor(3)
  await first.stop()
  const statuses = await Promise.all(ids.map(async (id) => (await world.record(id)).status))
  assert.ok(statuses.includes('pending') && statuses.includes('sent') && !statuses.includes('sending'))
  await world.sender()
  const records = await world.ended(ids)
  assert.ok(records.every(({ status, attempt }) => status === 'sent' && attempt === 1))
  assert.equal(robot.requests, 40)
})

test('the jobs of senders are hidden from the jobs of users', async () => {
  await using world = await createWorld()
  const { jobs: store, notifier } = world.backend
  await using jobs = createJobs({ store, notifier })
  const mine = await jobs.add('mail', {})
  for (let count = 0; count < 60; count++) await store.add([aJob('a'.repeat(64))])
  const other = await jobs.add('mail', {})
  await store.add([aJob('a'.repeat(64))])
  assert.deepEqual(
    (await jobs.stats()).map(({ queue }) => queue),
    ['default'],
  )
  const first = await jobs.list({ limit: 1 })
  assert.deepEqual(
    first.items.map(({ id }) => id),
    [other.id],
  )
  const second = await jobs.list({ limit: 1, cursor: first.cursor })
  assert.deepEqual(
    second.items.map(({ id }) => id),
    [mine.id],
  )
  assert.deepEqual(await jobs.list({ limit: 5, cursor: mine.id }), { items: [], cursor: null })
  assert.equal((await jobs.list({ queue: notifyQueue, limit: 500 })).items.length, 61)
  await assert.rejects(async () => jobs.add('send', {}, { queue: notifyQueue }), /belong to Signalbox/)
  await assert.rejects(async () => jobs.claim({ queues: [notifyQueue] }), /belong to Signalbox/)
  assert.throws(() => jobs.worker({ queues: [notifyQueue], handlers: { send() {} } }), /belong to Signalbox/)
})
