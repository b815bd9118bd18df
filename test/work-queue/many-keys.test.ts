/** Thousands of keys at a time, which come, leave and come again. The walk of `walk.ts` has five keys. */
import assert from 'node:assert/strict'
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue, WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { walkBursts } from './model/bursts.ts'
import { heldBytes, take, takeAll } from './probes.ts'

for (const kind of ['names', 'keyed', 'objects'] as const) {
  for (const coalesce of [false, true]) {
    const how = coalesce ? `${kind}, coalescing` : kind
    test(`bursts of thousands that shrink to a handful agree with a naive queue: ${how}`, async () => {
      await walkBursts({ kind, coalesce, rankedFrom: 10, seed: 1 })
    })
  }
}

for (const kind of ['names', 'objects', 'mixed', 'odd'] as const) {
  test(`many bursts of a few hundred agree with a naive queue: ${kind}`, async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const sizes = [5, 30, 70, 150, 300]
      const rankedFrom = seed % 3 === 0 ? 8 : Number.POSITIVE_INFINITY
      await walkBursts({ kind, coalesce: seed % 2 === 0, rankedFrom, seed, rounds: 16, sizes })
    }
  })
}

test('W1: a busy name stays in flight once while tens of thousands of others come and go', () => {
  const queue = new WorkQueue<string>()
  const inFlight = new Set<string>()
  const busy = Array.from({ length: 101 }, (_, at) => `busy ${at}`)
  for (let other = 0; other < 40_000; other++) {
    // Each is in flight for a while, idle for a while, and so on.
    const name = busy[other % busy.length]!
    const wasInFlight = inFlight.delete(name)
    assert.equal(queue.done(name), wasInFlight)
    if (!wasInFlight) {
      queue.add(name)
      assert.equal(take(queue).item, name)
      inFlight.add(name)
    }
    assert.equal(queue.add(`other ${other}`), true)
    assert.equal(take(queue).item, `other ${other}`)
    assert.equal(queue.done(`other ${other}`), true)
    assert.equal(queue.processing, inFlight.size)
  }
})

test('W1: names stay in flight while thousands of others pass', () => {
  const queue = new WorkQueue<unknown>()
  const takeOf = (items: readonly unknown[]): void => {
    for (const item of items) {
      queue.add(item)
      assert.equal(take(queue).item, item)
    }
  }
  const endOf = (items: readonly unknown[]): void => {
    for (const item of items) assert.equal(queue.done(item), true, String(item))
  }
  const names = (what: string, length: number): string[] => Array.from({ length }, (_, at) => `${what} ${at}`)
  const objects = Array.from({ length: 200 }, (_, at) => ({ at }))
  const early = names('early', 5)
  takeOf([...objects, ...early])
  endOf(early)
  endOf(objects.slice(1))

  const busy = names('busy', 300)
  takeOf(busy)
  for (const name of names('passing', 2_000)) {
    takeOf([name])
    endOf([name])
  }
  for (const name of busy) assert.equal(queue.add(name), true)
  assert.deepEqual([queue.size, queue.processing], [0, 301])
  endOf([...busy, objects[0]])
  assert.deepEqual(takeAll(queue), busy)
})

test('W7: the memory of a burst is released also while a handful is still in flight', async () => {
  const number = (id: number): unknown => id
  const name = (id: number): unknown => `name ${id}`
  // The first round of each is for the compiler, whose code would be weighed too.
  for (const [round, itemOf] of [number, name, number, name].entries()) {
    const queue = new WorkQueue<unknown>()
    const before = await heldBytes()
    for (let id = 0; id < 150_000; id++) queue.add(itemOf(id))
    const held = Array.from({ length: 5 }, () => take(queue).item)
    takeAll(queue)
    const kept = (await heldBytes(before + 400_000)) - before
    assert.ok(round < 2 || kept < 500_000, `${kept} bytes kept`)
    for (const each of held) assert.equal(queue.done(each), true)
  }
})

test('W7: queues without waiting items keep no memory of them', async () => {
  const queues = Array.from({ length: 100 }, () => new DelayingQueue<number>({ clock: createFakeClock() }))
  const before = await heldBytes()
  for (const queue of queues) {
    for (let id = 0; id < 1_000; id++) queue.addAfter(id, 10)
    for (let id = 0; id < 1_000; id++) queue.cancelAfter(id)
  }
  const kept = (await heldBytes(before + 400_000)) - before
  assert.ok(kept < 500_000, `${kept} bytes kept`)
  assert.equal(queues.length, 100)
})

test('W7: done objects are released at once, also while others are in flight or waiting', async () => {
  for (const key of [undefined, (item: object) => item]) {
    const queue = new DelayingQueue<object>({ clock: createFakeClock(), ...(key && { key }) })
    const held = { held: true }
    queue.add(held)
    take(queue)
    queue.addAfter({ waiting: true }, 10)
    const refs = Array.from({ length: 500 }, (_, at) => {
      const item = { at }
      queue.add(item)
      queue.done(take(queue).item)
      return new WeakRef(item)
    })
    await heldBytes()
    assert.equal(refs.filter((ref) => ref.deref() !== undefined).length, 0)
    assert.deepEqual([queue.done(held), queue.waiting], [true, 1])
  }
})

test('W7: names that came once are forgotten also while another is in flight', async () => {
  const queue = new WorkQueue<string>()
  queue.add('held')
  take(queue)
  const tail = 'x'.repeat(200)
  const pass = (from: number): void => {
    for (let id = from; id < from + 100_000; id++) {
      queue.add(`${id} ${tail}`)
      queue.done(take(queue).item)
    }
  }
  pass(0)
  const before = await heldBytes()
  pass(100_000)
  const kept = (await heldBytes(before + 400_000)) - before
  assert.ok(kept < 500_000, `${kept} bytes more`)
  assert.equal(queue.done('held'), true)
})
