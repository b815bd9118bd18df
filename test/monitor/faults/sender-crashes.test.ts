import assert from 'node:assert/strict'
import { test } from 'vitest'
import { notifyJob, notifyQueue } from '../../../src/monitor/notification-queue.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { createNumbers } from '../../support/random.ts'
import { startDingTalk, startReceiver } from '../../support/robots/index.ts'
import { inGrowingSpans } from '../../support/spans.ts'
import { createWorld, type ReplacedParts, sum } from '../sending-world.ts'

/** What a sender has whose process ends at one of its writes of ends: from then on it reaches nothing. */
function dying({ monitor, jobs }: Backend, isFatal: () => boolean): ReplacedParts {
  let isDead = false
  let isOver = false
  const grave = Promise.withResolvers<never>()
  grave.promise.catch(() => undefined)
  const until = <Store extends object>(store: Store): Store =>
    new Proxy(store, {
      get(target, name) {
        const method = Reflect.get(target, name) as ((...given: unknown[]) => unknown) | undefined
        if (method === undefined) return undefined
        return async (...args: unknown[]) => {
          const writesEnds = name === 'proceed' && (args[1] as { ends: unknown[] }).ends.length > 0
          if (writesEnds && !isOver) isDead ||= isFatal()
          // Not answered, as it is for a process that is gone; not before the test is over.
          return isDead ? grave.promise : Reflect.apply(method, target, args)
        }
      },
    })
  return {
    store: until(monitor),
    jobs: until(jobs),
    onClose() {
      isDead = false
      isOver = true
      grave.reject(new Error('this process is gone'))
    },
  }
}

test('a notification whose sender crashes before the commit is sent again as a possible repeat', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const [id] = await world.notify(desk, ['court 1'])
  await world.sender(
    { leaseMs: 200 },
    dying(world.backend, () => true),
  )
  await robot.waitFor(1)
  assert.equal((await world.record(id!)).status, 'sending')
  const next = await world.sender()
  await world.notify(desk, ['court 2'])
  await world.idle()
  // The lease that the dead one had while sending.
  world.advance(60_000)
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'sent')
  assert.equal(record!.attempt, 2)
  assert.equal(record!.possibleRepeat, true)
  assert.equal(next.counts().webhook?.ambiguous, 1)
  assert.deepEqual(robot.repeats, [id], 'the same id, so that the receiver knows it')
})

test('a subscription may hold a possible repeat, which an operator then replays', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  robot.misbehave('takeAndClose', 1)
  const config = { type: 'webhook', url: robot.url, secret: robot.secret }
  const desk = await world.subscribe(config, { onAmbiguous: 'hold' })
  const [id] = await world.notify(desk, ['court 1'])
  const sender = await world.sender()
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'held')
  assert.match(record!.error!, /"code":"ambiguous"/)
  const { ambiguous, held } = sender.counts().webhook!
  assert.deepEqual({ ambiguous, held }, { ambiguous: 1, held: 1 })
  assert.equal(
    await world.backend.monitor.replay(id!, notifyJob('send', { channel: desk.channel }, { delayMs: 0 })),
    true,
  )
  const [replayed] = await world.ended([id!])
  assert.equal(replayed!.status, 'sent')
  assert.equal(replayed!.possibleRepeat, true)
  assert.deepEqual(robot.repeats, [id])
})

test.for(['takeAndClose', 'close', 'hang', 'nonsense'] as const)(
  'after %s the outcome is unknown, so the sender sends again and marks a possible repeat',
  async (how) => {
    await using world = await createWorld({ timeoutMs: how === 'hang' ? 1_000 : 5_000 })
    await using robot = await startDingTalk()
    robot.misbehave(how, 1)
    const desk = await world.subscribe({ type: 'dingtalk', url: robot.url })
    const [id] = await world.notify(desk, ['court-1'])
    const sender = await world.sender()
    const [record] = await world.ended([id!])
    assert.equal(record!.status, 'sent')
    assert.equal(record!.attempt, 2)
    assert.equal(record!.possibleRepeat, true)
    assert.equal(sender.counts().dingtalk?.ambiguous, 1)
    assert.match(robot.messages.at(-1)!.text, /repeat|before/i)
  },
)

test('a robot that never answers makes the notification dead after the last try, with the reason', async () => {
  await inGrowingSpans('each try reaches the robot', async (timeoutMs) => {
    await using world = await createWorld({ timeoutMs })
    await using robot = await startReceiver({ now: () => world.now() })
    robot.misbehave('hang')
    const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
    const [id] = await world.notify(desk, ['court 1'])
    const sender = await world.sender()
    const [record] = await world.ended([id!], 30_000)
    assert.deepEqual([record!.status, record!.attempt], ['dead', 4])
    assert.ok(robot.requests <= 4, `${robot.requests} requests`)
    if (robot.requests < 4) return undefined
    assert.equal(sender.counts().webhook?.ambiguous, 4)
    return true
  })
}, 60_000)

test('an outbound that throws or answers nonsense harms no other message', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  let calls = 0
  await world.sender(
    {},
    {
      async send(request, real) {
        calls++
        if (calls === 1) throw new Error('boom')
        if (calls === 2) return undefined as never
        return real(request)
      },
    },
  )
  const [id] = await world.notify(desk, ['court 1'])
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'sent')
  assert.equal(record!.attempt, 3)
})

test('a store that fails now and then loses and doubles no notification', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const random = createNumbers(5)
  const failing = new Proxy(world.backend.monitor, {
    get(target, name) {
      return async (...args: unknown[]) => {
        if (random() < 0.2) throw new Error('the store is away')
        return Reflect.apply(Reflect.get(target, name) as (...given: unknown[]) => unknown, target, args)
      }
    },
  })
  const senders = [await world.sender({}, { store: failing }), await world.sender({}, { store: failing })]
  const ids: string[] = []
  for (let wave = 0; wave < 10; wave++) {
    ids.push(
      ...(await world.notify(
        desk,
        Array.from({ length: 5 }, (_, index) => `court ${wave} ${index}`),
      )),
    )
  }
  const records = await world.ended(ids, 30_000)
  assert.ok(records.every(({ status }) => status === 'sent'))
  assert.equal(robot.messages.length, 50)
  assert.ok(robot.repeats.length <= sum(senders, 'webhook', 'ambiguous'))
})

test('senders that die at random notify every change, twice only where the repeat was counted', async () => {
  const random = createNumbers(3)
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const senders = []
  const ids: string[] = []
  let deaths = 0
  for (let round = 0; round < 8; round++) {
    for (let wave = 0; wave < 5; wave++) {
      const names = Array.from({ length: 4 }, (_, index) => `court ${index}`)
      ids.push(...(await world.notify(desk, names, { maxAttempts: 100 })))
    }
    const isFatal = () => {
      deaths += random() < 0.3 ? 1 : 0
      return deaths > round
    }
    senders.push(await world.sender({}, dying(world.backend, isFatal)))
    await world.until('it has died', () => deaths > round)
    // Leases of jobs and channels run out.
    world.advance(90_000)
  }
  senders.push(await world.sender())
  world.advance(90_000)
  const records = await world.ended(ids, 30_000)
  assert.ok(records.every(({ status }) => status === 'sent'))
  assert.equal(robot.messages.length, ids.length)
  assert.ok(robot.repeats.length <= sum(senders, 'webhook', 'ambiguous'))
  assert.ok(robot.repeats.length > 0, 'some did die in between')
  for (const id of robot.repeats) {
    assert.equal(records.find((record) => record.id === id)?.possibleRepeat, true)
  }
}, 40_000)

test('the job of a sender that died runs again until it has the channel', async () => {
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  const [id] = await world.notify(desk, ['court 1'])
  // A sender that dies while it has the channel, and whose channel outlives its job.
  const { jobs, monitor } = world.backend
  const claim = { queues: [notifyQueue], kinds: null, workerId: 'died', limit: 1, leaseMs: 1_000 }
  assert.equal((await jobs.claim(claim)).length, 1)
  assert.ok((await monitor.take({ channel: desk.channel, token: 'died', leaseMs: 60_000 })).taken)
  world.advance(2_000)
  await world.sender({ leaseMs: 600 })
  await world.until('the job was tried again', async () => {
    const [job] = await jobs.list({ queue: notifyQueue, limit: 1 })
    return job!.attempt >= 3
  })
  assert.equal(robot.requests, 0)
  world.advance(60_000)
  const [record] = await world.ended([id!])
  assert.equal(record!.status, 'sent')
})

test('a sender sees a mark left at any moment: no notification is left behind', async () => {
  const random = createNumbers(9)
  await using world = await createWorld()
  await using robot = await startReceiver({ now: () => world.now() })
  const desk = await world.subscribe({ type: 'webhook', url: robot.url, secret: robot.secret })
  // Each call takes a while, before and after, so that every order of calls of three senders comes up.
  const slow = new Proxy(world.backend.monitor, {
    get(target, name) {
      return async (...args: unknown[]) => {
        const ticks = () => Math.floor(random() * 12)
        for (let tick = ticks(); tick > 0; tick--) await new Promise(setImmediate)
        const answer = await Reflect.apply(
          Reflect.get(target, name) as (...given: unknown[]) => unknown,
          target,
          args,
        )
        for (let tick = ticks(); tick > 0; tick--) await new Promise(setImmediate)
        return answer
      }
    },
  })
  for (let count = 0; count < 3; count++) await world.sender({ pollMs: 10 }, { store: slow })
  for (let round = 0; round < 60; round++) {
    const ids: string[] = []
    for (let count = Math.floor(random() * 4); count >= 0; count--) {
      ids.push(...(await world.notify(desk, [`court ${round} ${count}`])))
      for (let tick = Math.floor(random() * 30); tick > 0; tick--) await new Promise(setImmediate)
    }
    // No other job comes by chance: a notification that was left behind stays so.
    const records = await world.ended(ids, 5_000)
    assert.ok(
      records.every(({ status, attempt }) => status === 'sent' && attempt === 1),
      `round ${round}`,
    )
  }
  assert.deepEqual(robot.repeats, [])
}, 40_000)
