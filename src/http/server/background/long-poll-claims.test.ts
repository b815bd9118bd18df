import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createFakeClock, type FakeClock } from '../../../core/fake-clock.ts'
import { type JobsNotifier, queueTopic } from '../../../jobs/index.ts'
import { LongPollClaims } from './long-poll-claims.ts'

/** A store with one queue, whose claims take as long as the test likes. */
class FakeStore {
  readonly jobs: string[] = []
  readonly claimedBy: string[] = []
  readonly givenBack: string[] = []
  claimCount = 0
  error: Error | undefined
  /** While it is there, claims wait for it. */
  gate: PromiseWithResolvers<void> | undefined

  async claim(who: string): Promise<readonly string[]> {
    this.claimCount++
    await this.gate?.promise
    if (this.error) throw this.error
    const job = this.jobs.shift()
    if (job === undefined) return []
    this.claimedBy.push(who)
    return [job]
  }
  hold(): void {
    this.gate = Promise.withResolvers()
  }
  letGo(): void {
    this.gate?.resolve()
    this.gate = undefined
  }
}

interface Waiting {
  readonly who: string
  answer: readonly string[] | undefined
  error: unknown
  readonly gone: AbortController
}

interface Stage {
  readonly clock: FakeClock
  readonly store: FakeStore
  readonly longPollClaims: LongPollClaims
  readonly wakeUps: string[]
  listenerCount(): number
  wake(queue?: string): Promise<void>
  wait(
    who: string,
    options?: { waitMs?: number; queues?: string[]; kinds?: string[] | undefined; giveBack?: false },
  ): Promise<Waiting>
}

/** Lets everything run that is ready to. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve))

function aStage(): Stage {
  const clock = createFakeClock()
  const store = new FakeStore()
  const listeners = new Map<() => void, readonly string[]>()
  const wakeUps: string[] = []
  const notifier: JobsNotifier = {
    wake(topic) {
      wakeUps.push(topic)
      for (const [heard, topics] of [...listeners]) if (topics.includes(topic)) heard()
    },
    listen(topics, heard) {
      const mine = () => heard()
      listeners.set(mine, topics)
      return () => listeners.delete(mine)
    },
  }
  const longPollClaims = new LongPollClaims(notifier, { clock, random: () => 0.5 })
  return {
    clock,
    store,
    longPollClaims,
    wakeUps,
    listenerCount: () => listeners.size,
    async wake(queue = 'mail') {
      notifier.wake(queueTopic(queue))
      await settle()
    },
    async wait(who, { waitMs = 30_000, queues = ['mail'], kinds, giveBack } = {}) {
      const gone = new AbortController()
      const waiting: Waiting = { who, answer: undefined, error: undefined, gone }
      const back = {
        giveBack: async (jobs: readonly string[]) => {
          store.givenBack.push(...jobs)
          store.jobs.push(...jobs)
        },
      }
      longPollClaims
        .wait({ queues, kinds, ...(giveBack === false ? {} : back) }, waitMs, gone.signal, () =>
          store.claim(who),
        )
        .then(
          (jobs) => {
            waiting.answer = jobs
          },
          (error: unknown) => {
            waiting.error = error
          },
        )
      await settle()
      return waiting
    },
  }
}

const names = (count: number) => Array.from({ length: count }, (_, nth) => `w${nth}`)

test('a claim that finds a job is answered at once, and an empty claim queue is soon forgotten', async () => {
  const { store, wait, listenerCount, clock } = aStage()
  store.jobs.push('j1')
  const waiting = await wait('a')
  assert.deepEqual(waiting.answer, ['j1'])
  assert.equal(store.claimCount, 1)
  assert.equal(listenerCount(), 1)
  clock.advance(1_000)
  assert.equal(listenerCount(), 0)
  assert.equal(clock.timerCount, 0)
})

test('jobs go to waiting claims in order of arrival', async () => {
  const { store, wait, wake } = aStage()
  const waiting = []
  for (const who of names(5)) waiting.push(await wait(who))
  for (const job of ['j1', 'j2', 'j3']) {
    store.jobs.push(job)
    await wake()
  }
  assert.deepEqual(store.claimedBy, ['w0', 'w1', 'w2'])
  assert.deepEqual(
    waiting.map(({ answer }) => answer),
    [['j1'], ['j2'], ['j3'], undefined, undefined],
  )
  store.jobs.push('j4', 'j5')
  await wake()
  assert.deepEqual(store.claimedBy.slice(3), ['w3', 'w4'])
})

test('a wake-up costs one claim more than there are jobs, however many callers wait', async () => {
  const { store, wait, wake, listenerCount } = aStage()
  await Promise.all(names(10_000).map((who) => wait(who)))
  assert.equal(listenerCount(), 1)
  let before = store.claimCount
  await wake()
  assert.equal(store.claimCount - before, 1)
  before = store.claimCount
  store.jobs.push('j1')
  await wake()
  assert.equal(store.claimCount - before, 2)
  assert.deepEqual(store.claimedBy, ['w0'])
})

test('many jobs at once are claimed by several claims, and all are handed out in order', async () => {
  const { store, wait, wake } = aStage()
  for (const who of names(100)) await wait(who)
  let underWay = 0
  let most = 0
  const { claim } = store
  store.claim = async (who) => {
    most = Math.max(most, ++underWay)
    await settle()
    const jobs = await claim.call(store, who)
    underWay--
    return jobs
  }
  store.jobs.push(...names(60))
  const before = store.claimCount
  await wake()
  while (store.claimedBy.length < 60 || underWay > 0) await settle()
  assert.deepEqual(store.claimedBy, names(60))
  assert.ok(most > 1 && most <= 16, `${most} at a time`)
  assert.ok(store.claimCount - before <= 60 + 16)
})

test('wake-ups during a claim cause one more claim after it', async () => {
  const { store, wait, wake } = aStage()
  const a = await wait('a')
  await wait('b')
  store.hold()
  await wake()
  const before = store.claimCount
  for (let nth = 0; nth < 50; nth++) await wake()
  assert.equal(store.claimCount, before)
  store.letGo()
  await settle()
  assert.equal(store.claimCount, before + 1)
  assert.equal(a.answer, undefined)
})

test('where no claim is idle, a new caller does not wait for the claims of others', async () => {
  const { store, wait } = aStage()
  store.hold()
  for (const who of names(20)) await wait(who)
  assert.equal(store.claimCount, 20)
})

test('a new caller does not overtake waiting ones, but the jobs that it finds are handed out', async () => {
  const { store, wait } = aStage()
  const first = await wait('first')
  // Added where no wake-up comes from.
  store.jobs.push('j1')
  const second = await wait('second')
  assert.deepEqual(first.answer, ['j1'])
  assert.equal(second.answer, undefined)
})

test('without wake-ups the first caller looks every second', async () => {
  const { store, wait, clock } = aStage()
  const a = await wait('a')
  await wait('b')
  const before = store.claimCount
  clock.advance(1_000)
  await settle()
  assert.equal(store.claimCount, before + 1)
  store.jobs.push('j1')
  clock.advance(1_000)
  await settle()
  assert.deepEqual(a.answer, ['j1'])
})

test('a claim without a job is answered exactly when its time is over', async () => {
  const { wait, clock, listenerCount } = aStage()
  const waiting = await wait('a', { waitMs: 2_500 })
  for (const ms of [1_000, 1_000, 499]) {
    clock.advance(ms)
    await settle()
    assert.equal(waiting.answer, undefined)
  }
  clock.advance(1)
  await settle()
  assert.deepEqual(waiting.answer, [])
  clock.advance(1_000)
  assert.equal(listenerCount(), 0)
  assert.equal(clock.timerCount, 0)
})

test('a job that is being claimed when the time is over is still handed out', async () => {
  const { store, wait, clock } = aStage()
  store.hold()
  store.jobs.push('j1')
  const waiting = await wait('a', { waitMs: 50 })
  clock.advance(60)
  await settle()
  assert.equal(waiting.answer, undefined)
  store.letGo()
  await settle()
  assert.deepEqual(waiting.answer, ['j1'])
  clock.advance(1_000)
  assert.equal(clock.timerCount, 0)
})

test('a hanging claim delays neither its own client nor the clients behind it', async () => {
  const { store, wait, clock, listenerCount } = aStage()
  store.hold()
  const stuck = store.gate!
  const a = await wait('a', { waitMs: 2_000 })
  store.gate = undefined
  const b = await wait('b')
  store.jobs.push('j1')
  clock.advance(1_000)
  await settle()
  assert.deepEqual(b.answer, ['j1'])
  clock.advance(2_999)
  await settle()
  assert.equal(a.answer, undefined)
  clock.advance(1)
  await settle()
  assert.deepEqual(a.answer, [])
  // Its claim comes back late, with a job that has no waiting client any more.
  store.jobs.push('j2')
  stuck.resolve()
  await settle()
  assert.deepEqual(store.givenBack, ['j2'])
  clock.advance(1_000)
  assert.equal(listenerCount(), 0)
  assert.equal(clock.timerCount, 0)
})

test('a claim queue whose only claim hangs is still forgotten', async () => {
  const { store, wait, clock, listenerCount } = aStage()
  store.hold()
  const a = await wait('a', { waitMs: 2_500 })
  for (let second = 0; second < 5; second++) clock.advance(1_000)
  await settle()
  assert.deepEqual(a.answer, [])
  clock.advance(1_000)
  assert.equal(listenerCount(), 0)
  assert.equal(clock.timerCount, 0)
})

test('jobs for a client that has gone are handed back, and other callers are woken', async () => {
  const { store, wait, wakeUps } = aStage()
  store.hold()
  store.jobs.push('j1')
  const a = await wait('a')
  a.gone.abort()
  await settle()
  assert.deepEqual(a.answer, [])
  store.letGo()
  await settle()
  assert.deepEqual(store.givenBack, ['j1'])
  assert.deepEqual(wakeUps, ['jobs:mail'])
  assert.deepEqual((await wait('b')).answer, ['j1'])
})

test('a client that leaves the middle of the claim queue does not disturb the others', async () => {
  const { store, wait, wake } = aStage()
  const [a, b, c] = [await wait('a'), await wait('b'), await wait('c')]
  const before = store.claimCount
  b.gone.abort()
  await settle()
  assert.deepEqual(b.answer, [])
  assert.equal(store.claimCount, before)
  store.jobs.push('j1', 'j2')
  await wake()
  assert.deepEqual([a.answer, c.answer], [['j1'], ['j2']])
})

test('when the first caller leaves during its claim the next one looks at once', async () => {
  const { store, wait, wake } = aStage()
  const [a, b] = [await wait('a'), await wait('b')]
  store.hold()
  const stuck = store.gate!
  await wake()
  store.gate = undefined
  store.jobs.push('j1')
  a.gone.abort()
  await settle()
  assert.deepEqual(b.answer, ['j1'])
  stuck.resolve()
  await settle()
  assert.deepEqual(store.givenBack, [])
})

test('jobs claimed with an idempotency key are kept for the second request', async () => {
  const { store, wait, wakeUps } = aStage()
  store.hold()
  store.jobs.push('j1')
  const a = await wait('a', { giveBack: false })
  a.gone.abort()
  store.letGo()
  await settle()
  assert.deepEqual(a.answer, [])
  assert.deepEqual(store.givenBack, [])
  assert.deepEqual(wakeUps, [])
})

test('an error reaches the caller of its claim, and the next caller looks soon', async () => {
  const { store, wait, wake, clock } = aStage()
  const [a, b, c] = [await wait('a'), await wait('b'), await wait('c')]
  store.error = new Error('down')
  await wake()
  assert.equal((a.error as Error).message, 'down')
  assert.deepEqual([b.error, c.error], [undefined, undefined])
  store.error = undefined
  store.jobs.push('j1')
  clock.advance(100)
  await settle()
  assert.deepEqual(b.answer, ['j1'])
  assert.equal(c.answer, undefined)
})

test('a claim that throws before it starts is an error like any other', async () => {
  const { longPollClaims } = aStage()
  const claim = () => {
    throw new Error('at once')
  }
  const { signal } = new AbortController()
  for (const waitMs of [0, 1_000]) {
    await assert.rejects(
      longPollClaims.wait({ queues: ['mail'], kinds: undefined }, waitMs, signal, claim),
      /at once/,
    )
  }
})

test('callers for other queues or kinds wait in other claim queues', async () => {
  const { store, wait, wake, listenerCount } = aStage()
  await wait('a', { queues: ['mail', 'pdf'], kinds: ['x', 'y'] })
  await wait('b', { queues: ['pdf', 'mail'], kinds: ['y', 'x', 'x'] })
  assert.equal(listenerCount(), 1)
  await wait('c', { queues: ['mail', 'pdf'] })
  await wait('d', { queues: ['mail,pdf'] })
  assert.equal(listenerCount(), 3)
  const before = store.claimCount
  await wake('pdf')
  assert.equal(store.claimCount - before, 2)
})

test('closing ends all waits, and lets running claims finish with their jobs', async () => {
  const { store, wait, longPollClaims, wake, clock, listenerCount } = aStage()
  const [a, b] = [await wait('a'), await wait('b')]
  store.jobs.push('j1')
  store.hold()
  await wake()
  longPollClaims.close()
  await settle()
  assert.deepEqual([a.answer, b.answer], [undefined, []])
  assert.equal(listenerCount(), 0)
  store.letGo()
  await settle()
  assert.deepEqual(a.answer, ['j1'])
  assert.equal(clock.timerCount, 0)
  // Who comes later is answered, but does not wait.
  const late = await wait('late')
  assert.deepEqual(late.answer, [])
})

test('a caller that does not wait claims once, and a client that has gone does not claim', async () => {
  const { store, wait, longPollClaims } = aStage()
  const none = await wait('a', { waitMs: 0 })
  assert.deepEqual(none.answer, [])
  const answer = await longPollClaims.wait(
    { queues: ['mail'], kinds: undefined },
    1_000,
    AbortSignal.abort(),
    () => store.claim('b'),
  )
  assert.deepEqual(answer, [])
  assert.equal(store.claimCount, 1)
  // It goes while its only claim is under way.
  store.jobs.push('j1')
  store.hold()
  const c = await wait('c', { waitMs: 0 })
  c.gone.abort()
  store.letGo()
  await settle()
  assert.deepEqual(c.answer, [])
  assert.deepEqual(store.givenBack, ['j1'])
})
