import assert from 'node:assert/strict'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { test, vi } from 'vitest'
import type { QueueStats } from '../../../jobs/index.ts'
import { type Counted, queueCountLimits, queueCountsOf } from './queue-counts.ts'

function lineOf(ready: number): QueueStats {
  const zero = { scheduled: 0, waiting: 0, running: 0, dead: 0 }
  const none = { ...zero, approximate: false, oldestReadyAt: null, limits: null }
  return { queue: 'mail', paused: false, ...none, ready }
}

/** A store that counts when the test says so. */
function createStore() {
  const asked: PromiseWithResolvers<readonly QueueStats[]>[] = []
  const answer = (ready: number) => asked.at(-1)!.resolve([lineOf(ready)])
  const stats = () => {
    asked.push(Promise.withResolvers())
    return asked.at(-1)!.promise
  }
  return { asked, answer, jobs: { stats } }
}

const readyOf = async (counted: Promise<Counted>) => (await counted).lines[0]!.ready

test('with few jobs, a caller that wants a fresh count gets one that began after its call', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const first = counts.now()
  store.answer(1)
  assert.equal(await readyOf(first), 1)
  const second = counts.now()
  store.answer(2)
  assert.equal(await readyOf(second), 2)
  assert.equal(await readyOf(counts.recent()), 2)
  assert.equal(store.asked.length, 2)
})

test('with very many jobs, all callers share the last count', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const many = queueCountLimits.largeCount
  const first = counts.now()
  store.answer(many)
  assert.equal(await readyOf(first), many)
  assert.deepEqual(await Promise.all([counts.now(), counts.recent()].map(readyOf)), [many, many])
  assert.equal(store.asked.length, 1)
})

test('after a change of a queue, a count that began before it serves no later caller', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const many = queueCountLimits.largeCount
  const before = counts.recent()
  counts.forget()
  const after = counts.recent()
  store.asked[0]!.resolve([lineOf(many)])
  assert.equal(await readyOf(before), many)
  const later = counts.now()
  store.answer(many + 1)
  assert.deepEqual(await Promise.all([after, later].map(readyOf)), [many + 1, many + 1])
  assert.equal(store.asked.length, 2)
  counts.forget()
  const last = counts.now()
  store.answer(many + 2)
  assert.equal(await readyOf(last), many + 2)
})

test('a caller with a time limit learns by then that jobs are being counted, and gets the count later', async () => {
  vi.useFakeTimers()
  try {
    const store = createStore()
    const counts = queueCountsOf(store)
    const after = async (ms: number, asked: Promise<Counted>) => {
      await vi.advanceTimersByTimeAsync(ms)
      return asked
    }
    assert.deepEqual(await after(5, counts.recent(5)), { lines: [], isCounting: true })
    assert.deepEqual(await after(5, counts.now(5)), { lines: [], isCounting: true })
    assert.equal(store.asked.length, 1)
    const patient = counts.recent(60_000)
    store.answer(7)
    assert.deepEqual(await patient, { lines: [lineOf(7)], isCounting: false })
    // Of few jobs, who asks for now gets another count, and what was known when that takes too long.
    assert.deepEqual(await after(5, counts.now(5)), { lines: [lineOf(7)], isCounting: true })
    assert.equal(store.asked.length, 2)
    // It is shared by all who come meanwhile.
    const next = counts.now(5)
    store.answer(8)
    assert.deepEqual(await next, { lines: [lineOf(8)], isCounting: false })
    assert.equal(store.asked.length, 2)
  } finally {
    vi.useRealTimers()
  }
})

test('callers that do not wait also get the error of the store', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  assert.equal((await counts.recent(5)).isCounting, true)
  store.asked[0]!.reject(new Error('the store is away'))
  await setImmediate()
  const next = counts.recent(0)
  await setTimeout(5)
  store.asked[1]!.reject(new Error('the store is still away'))
  await assert.rejects(next, /still away/)
})

test('callers that wait for a failed count get its error, and the next one counts again', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const failing = counts.recent()
  store.asked[0]!.reject(new Error('the store is away'))
  await assert.rejects(failing, /the store is away/)
  const next = counts.recent()
  store.answer(3)
  assert.equal(await readyOf(next), 3)
})
