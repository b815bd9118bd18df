import assert from 'node:assert/strict'
import { afterEach, beforeEach, test, vi } from 'vitest'
import { SignalboxError } from '../../core/errors.ts'
import { createAlarm } from '../../core/notifier.ts'
import type { Added, NewJob } from '../job-store.ts'
import { resolveNewJob } from './add-options.ts'
import { createAddBatcher, createAnnouncer } from './job-adder.ts'

const aJob = (): NewJob => resolveNewJob('add', 'mail', {}, {})

/** A store whose writes end when the test says so. */
function slowStore() {
  const writes: { jobs: readonly NewJob[]; end: () => void; fail: (error: unknown) => void }[] = []
  const add = (jobs: readonly NewJob[]) =>
    new Promise<readonly Added[]>((resolve, reject) => {
      const end = () => resolve(jobs.map(({ id }) => ({ id, duplicate: false })))
      writes.push({ jobs, end, fail: reject })
    })
  return { writes, add }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('concurrent adds are one write, each with its own answer', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const jobs = Array.from({ length: 50 }, aJob)
  const adds = jobs.map((job) => batcher.add(job))
  await turn()
  assert.equal(store.writes.length, 1)
  assert.deepEqual(store.writes[0]!.jobs, jobs)
  store.writes[0]!.end()
  assert.deepEqual(
    (await Promise.all(adds)).map(({ id }) => id),
    jobs.map(({ id }) => id),
  )
})

test('adds that come while two writes are in flight go together in the next', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const first = batcher.add(aJob())
  await turn()
  const second = batcher.add(aJob())
  await turn()
  assert.equal(store.writes.length, 2)
  const rest = Array.from({ length: 20 }, () => batcher.add(aJob()))
  await turn()
  assert.equal(store.writes.length, 2)
  store.writes[1]!.end()
  await second
  await turn()
  assert.deepEqual(
    store.writes.map(({ jobs }) => jobs.length),
    [1, 1, 20],
  )
  store.writes[0]!.end()
  store.writes[2]!.end()
  await Promise.all([first, ...rest])
  // Nothing is left over: the next add is written at once.
  const last = batcher.add(aJob())
  await turn()
  store.writes[3]!.end()
  await last
})

test('many adds are written by the thousand, in order of arrival', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const jobs = Array.from({ length: 2_500 }, aJob)
  const adds = jobs.map((job) => batcher.add(job))
  for (let index = 0; index < 3; index++) {
    while (store.writes.length <= index) await turn()
    store.writes[index]!.end()
  }
  await Promise.all(adds)
  assert.deepEqual(
    store.writes.map(({ jobs: batch }) => batch.length),
    [1_000, 1_000, 500],
  )
  assert.deepEqual(
    store.writes.flatMap(({ jobs: batch }) => batch.map(({ id }) => id)),
    jobs.map(({ id }) => id),
  )
})

test('a failed write is reported to its own adds, and the next writes continue', async () => {
  const store = slowStore()
  const batcher = createAddBatcher(store)
  const first = Promise.allSettled([batcher.add(aJob()), batcher.add(aJob())])
  await turn()
  store.writes[0]!.fail(new Error('disk full'))
  assert.deepEqual(
    (await first).map((outcome) => outcome.status === 'rejected' && (outcome.reason as Error).message),
    ['disk full', 'disk full'],
  )
  const next = batcher.add(aJob())
  await turn()
  store.writes[1]!.end()
  assert.equal((await next).duplicate, false)
})

test('a mistake in one of several adds is reported to that add only', async () => {
  const bad = aJob()
  const written: string[] = []
  const batcher = createAddBatcher({
    async add(jobs) {
      if (jobs.includes(bad)) throw new SignalboxError('invalid_argument', 'no')
      written.push(...jobs.map(({ id }) => id))
      return jobs.map(({ id }) => ({ id, duplicate: false }))
    },
  })
  const good = aJob()
  const [first, second] = await Promise.allSettled([batcher.add(good), batcher.add(bad)])
  assert.deepEqual([first.status, second.status], ['fulfilled', 'rejected'])
  assert.deepEqual(written, [good.id])
})

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

test('an alarm fires at each time, soonest first, and not before', () => {
  let wakeUps = 0
  const alarm = createAlarm(() => wakeUps++)
  alarm.set(500)
  alarm.set(100)
  alarm.set(300)
  for (const [ms, expected] of [
    [100, 0],
    [10, 1],
    [190, 1],
    [10, 2],
    [180, 2],
    [20, 3],
    [10_000, 3],
  ] as const) {
    vi.advanceTimersByTime(ms)
    assert.equal(wakeUps, expected)
  }
})

test('a cleared alarm does not fire', () => {
  const alarm = createAlarm(() => assert.fail('the alarm went off'))
  alarm.set(10)
  alarm.clear()
  vi.advanceTimersByTime(1_000)
})

test('an alarm keeps a bounded number of times and still fires for the soonest', () => {
  let wakeUps = 0
  const alarm = createAlarm(() => wakeUps++)
  for (let nth = 0; nth < 5_000; nth++) alarm.set(1_000)
  vi.advanceTimersByTime(1_500)
  assert.ok(wakeUps >= 1 && wakeUps < 10)
})

test('due jobs are announced now, once per queue, and delayed jobs when they are due', () => {
  const woken: string[] = []
  const announcer = createAnnouncer({ wake: (topic) => woken.push(topic), listen: () => () => undefined })
  const job = (queue: string, options: object = {}) => resolveNewJob('add', 'mail', {}, { queue, ...options })
  announcer.announce([job('a'), job('a'), job('b', { delayMs: 200 }), job('c', { delayMs: '1h' })])
  assert.deepEqual(woken, ['jobs:a'])
  vi.advanceTimersByTime(250)
  assert.deepEqual(woken, ['jobs:a', 'jobs:b'])
  vi.advanceTimersByTime(7_200_000)
  assert.deepEqual(woken, ['jobs:a', 'jobs:b'])
  announcer.announce([job('b', { delayMs: 100 })])
  announcer.close()
  vi.advanceTimersByTime(1_000)
  assert.deepEqual(woken, ['jobs:a', 'jobs:b'])
})

test('a closed announcer wakes no worker, neither at once nor later', () => {
  const woken: string[] = []
  const announcer = createAnnouncer({ wake: (topic) => woken.push(topic), listen: () => () => undefined })
  const job = (options: object) => resolveNewJob('add', 'mail', {}, options)
  announcer.close()
  announcer.announce([job({}), job({ delayMs: 100 })])
  vi.advanceTimersByTime(1_000)
  assert.deepEqual(woken, [])
})
