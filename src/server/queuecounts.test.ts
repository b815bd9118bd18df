import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { QueueStats } from '../jobs/index.ts'
import { queueCountLimits, queueCountsOf } from './queuecounts.ts'

function lineOf(ready: number): QueueStats {
  const none = { scheduled: 0, waiting: 0, running: 0, dead: 0, oldestReadyAt: null, limits: null }
  return { queue: 'mail', paused: false, ...none, ready }
}

/** A store that counts when it is told to. */
function createStore() {
  const asked: PromiseWithResolvers<readonly QueueStats[]>[] = []
  const answer = (ready: number) => asked.at(-1)!.resolve([lineOf(ready)])
  const stats = () => {
    asked.push(Promise.withResolvers())
    return asked.at(-1)!.promise
  }
  return { asked, answer, jobs: { stats } }
}

const readyOf = async (lines: Promise<readonly QueueStats[]>) => (await lines)[0]!.ready

test('while there are not very many jobs, who asks for now gets a count that began after they asked', async () => {
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

test('of very many jobs, all who ask share what was counted last, until a queue is changed', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const many = queueCountLimits.largeCount
  const first = counts.now()
  store.answer(many)
  assert.equal(await readyOf(first), many)
  assert.deepEqual(await Promise.all([counts.now(), counts.recent()].map(readyOf)), [many, many])
  assert.equal(store.asked.length, 1)
  counts.forget()
  const both = [counts.now(), counts.recent()]
  store.answer(many + 1)
  assert.deepEqual(await Promise.all(both.map(readyOf)), [many + 1, many + 1])
  assert.equal(store.asked.length, 2)
})

test('what was being counted when a queue was changed is not shown afterwards', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const before = counts.recent()
  const old = store.asked[0]!
  counts.forget()
  const after = counts.recent()
  store.answer(2)
  assert.equal(await readyOf(after), 2)
  old.resolve([lineOf(1)])
  assert.equal(await readyOf(before), 1)
  assert.equal(await readyOf(counts.recent()), 2)
})

test('a count that fails is told to those who waited for it, and the next one counts again', async () => {
  const store = createStore()
  const counts = queueCountsOf(store)
  const failing = counts.recent()
  store.asked[0]!.reject(new Error('the store is away'))
  await assert.rejects(failing, /the store is away/)
  const next = counts.recent()
  store.answer(3)
  assert.equal(await readyOf(next), 3)
})
