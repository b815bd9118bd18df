/**
 * W7: after all keys are done and forgotten nothing is left: objects are collected, the heap is as before, no
 * timer is armed and no listener stays. The workers run with --expose-gc.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { createFakeClock } from 'signalbox/testing'
import {
  DelayingQueue,
  FairQueue,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  RateLimitingQueue,
  WorkQueue,
} from 'signalbox/workqueue'
import { test } from 'vitest'
import { heldBytes, quiet, take, takeAll } from './probes.ts'

interface Item {
  readonly id: number
  readonly ballast: number[]
}
const item = (id: number): Item => ({ id, ballast: new Array(100).fill(id) })

function collect(): void {
  assert.ok(globalThis.gc, 'run with --expose-gc')
  globalThis.gc()
}

/** How many of the objects are still held, once the collector had its chances. */
async function heldOf(refs: readonly WeakRef<object>[]): Promise<number> {
  let held = refs.length
  for (let attempt = 0; attempt < 10 && held > 0; attempt++) {
    // A WeakRef that was read holds its object until the end of the job.
    await quiet()
    collect()
    held = refs.filter((ref) => ref.deref() !== undefined).length
  }
  return held
}

/** Bytes that are still in use after `work`, next to before it. */
async function growthOf(work: () => unknown): Promise<number> {
  await work()
  const before = await heldBytes()
  await work()
  await quiet()
  return (await heldBytes(before + 1e6)) - before
}

/** Makes items, lets `use` work with them, and gives weak references to them back. */
function watched(count: number, use: (items: Item[]) => void): WeakRef<Item>[] {
  const items = Array.from({ length: count }, (_, id) => item(id))
  use(items)
  return items.map((each) => new WeakRef(each))
}

test('W7: done items are released while the queue lives on', async () => {
  const queue = new WorkQueue<Item>()
  const refs = watched(50, (items) => {
    for (const each of items) queue.add(each)
    for (const each of takeAll(queue)) queue.add(each)
    takeAll(queue)
  })
  assert.equal(await heldOf(refs), 0)
  assert.equal(queue.size, 0)
})

test('W7: with a key function neither payloads nor keys are kept', async () => {
  const queue = new WorkQueue<Item>({
    key: ({ ballast }) => ballast,
    queue: new FairQueue(({ id }: Item) => id % 3),
  })
  const refs = watched(50, (items) => {
    for (const each of items) queue.add(each, { priority: each.id % 2 })
    for (const each of items) queue.add({ ...each }, { priority: 1 })
    assert.equal(takeAll(queue).length, 50)
  })
  assert.equal(await heldOf(refs), 0)
  assert.equal(queue.size, 0)
})

test('an older payload is released when a newer one replaces it', async () => {
  const queue = new DelayingQueue<Item>({ key: ({ id }) => id, clock: createFakeClock() })
  const queued = watched(20, (items) => {
    for (const each of items) queue.add(each)
  })
  const waiting = watched(20, (items) => {
    for (const each of items) queue.addAfter({ ...each, id: each.id + 100 }, 10)
  })
  for (let id = 0; id < 20; id++) queue.add(item(id))
  for (let id = 100; id < 120; id++) queue.addAfter(item(id), 10)
  assert.equal(await heldOf([...queued, ...waiting]), 0)
  assert.deepEqual([queue.size, queue.waiting], [20, 20])
})

test('W7: an item in flight is released at done, even if its Work is not referenced', async () => {
  const queue = new WorkQueue<Item>({ key: ({ id }) => id })
  const refs = watched(20, (items) => {
    for (const each of items) {
      queue.add(each)
      take(queue)
    }
    for (const each of items) queue.done(each)
  })
  assert.equal(await heldOf(refs), 0)
  assert.equal(queue.processing, 0)
})

test('W7: items given to blocked getters, and getters that gave up, leave nothing behind', async () => {
  const queue = new WorkQueue<Item>()
  const { signal } = new AbortController()
  const quits = Array.from({ length: 20 }, () => new AbortController())
  const gone = quits.map((quit) => queue.get({ signal: quit.signal }).catch(() => {}))
  const got = Array.from({ length: 20 }, () => queue.get({ signal }).then((work) => work[Symbol.dispose]()))
  for (const quit of quits) quit.abort()
  const refs = watched(20, (items) => {
    for (const each of items) queue.add(each)
  })
  await Promise.all([...gone, ...got])
  got.length = 0
  assert.equal(await heldOf(refs), 0)
  assert.equal(queue.processing, 0)
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

for (const keyed of [false, true]) {
  for (const count of [5, 50]) {
    const kind = `${count} ${keyed ? 'keyed ' : ''}waiting items`
    test(`W7: ${kind} that became due, were cancelled or were dropped are released`, async () => {
      const clock = createFakeClock()
      const queue = new DelayingQueue<Item>({ clock, ...(keyed && { key: ({ id }: Item) => id }) })
      const due = watched(count, (items) => {
        for (const each of items) queue.addAfter(each, 1 + (each.id % 7))
        clock.advance(10)
        takeAll(queue)
      })
      assert.equal(await heldOf(due), 0, 'fallen due')
      const cancelled = watched(count, (items) => {
        for (const each of items) queue.addAfter(each, 1 + (each.id % 7))
        for (const each of items) queue.cancelAfter(each)
      })
      assert.equal(await heldOf(cancelled), 0, 'taken back')
      const dropped = watched(count, (items) => {
        for (const each of items) queue.addAfter(each, 1 + (each.id % 7))
        queue.shutDown()
      })
      assert.equal(await heldOf(dropped), 0, 'dropped')
      assert.deepEqual([queue.waiting, clock.timerCount], [0, 0])
    })
  }
}

test('W7: items that a limiter forgot, or dropped for maxItems, are released', async () => {
  const limiters = [
    new ItemExponentialFailureRateLimiter<Item>(1, 10, { maxItems: 30 }),
    new ItemFastSlowRateLimiter<Item>(1, 10, 2, { maxItems: 30 }),
  ]
  for (const limiter of limiters) {
    const forgotten = watched(20, (items) => {
      for (const each of items) limiter.when(each)
      for (const each of items) limiter.forget(each)
    })
    assert.equal(await heldOf(forgotten), 0, 'forgotten')
    const many = watched(100, (items) => {
      for (const each of items) limiter.when(each)
    })
    assert.ok((await heldOf(many)) <= 30, 'dropped')
    assert.equal(limiter.numRequeues(item(1)), 0)
  }
})

test('W7: a run that retried its items leaves nothing of them behind', async () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<Item>({
    clock,
    rateLimiter: new ItemExponentialFailureRateLimiter<Item>(1, 10),
  })
  const failed = new WeakSet<Item>()
  const ran = queue.run(
    (each) => {
      if (failed.has(each)) return
      failed.add(each)
      throw new Error('once')
    },
    { concurrency: 4 },
  )
  const refs = watched(50, (items) => {
    for (const each of items) queue.add(each)
  })
  for (let i = 0; i < 60; i++) {
    await quiet()
    clock.advance(1)
  }
  assert.deepEqual([queue.size, queue.processing, queue.waiting], [0, 0, 0])
  assert.equal(await heldOf(refs), 0)
  assert.equal(clock.timerCount, 0)
  queue.shutDown()
  await ran
})

test('an unreferenced queue is collected, with its queued items', async () => {
  const refs = watched(10, (items) => {
    const queue = new DelayingQueue<Item>({ clock: createFakeClock() })
    for (const each of items) queue.add(each)
    for (const each of items) queue.addAfter(each, 10)
  })
  assert.equal(await heldOf(refs), 0)
})

test('W7: a million turns of distinct names, one by one, leave the heap as it was', async () => {
  const queue = new WorkQueue<string>()
  let name = 0
  const growth = await growthOf(() => {
    for (let i = 0; i < 250_000; i++) {
      const each = `name ${name++}`
      queue.add(each)
      take(queue)
      queue.add(each)
      queue.done(each)
      take(queue)
      queue.done(each)
    }
  })
  assert.equal(queue.size, 0)
  assert.ok(growth < 5e6, `${growth} bytes more`)
})

test('W7: a hundred thousand names queued at once and worked off leave the heap as it was', async () => {
  const queue = new WorkQueue<string>({ queue: new FairQueue((each: string) => each.slice(-1)) })
  let name = 0
  const growth = await growthOf(() => {
    for (let i = 0; i < 100_000; i++) queue.add(`name ${name++}`, { priority: i % 3 })
    assert.equal(takeAll(queue).length, 100_000)
  })
  assert.ok(growth < 2e6, `${growth} bytes more`)
})

test('W7: a hundred thousand delays and failures, worked off and forgotten, leave the heap as it was', async () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<string>({
    clock,
    rateLimiter: new ItemExponentialFailureRateLimiter<string>(1, 100),
  })
  let name = 0
  const growth = await growthOf(() => {
    for (let i = 0; i < 100_000; i++) queue.addRateLimited(`name ${name + i}`)
    for (let i = 0; i < 100_000; i++) queue.addAfter(`name ${name + i}`, 1 + (i % 997), { replace: true })
    clock.advance(1_000)
    const items = takeAll(queue)
    assert.equal(items.length, 100_000)
    for (const each of items) queue.forget(each)
    name += 100_000
  })
  assert.equal(clock.timerCount, 0)
  assert.ok(growth < 2e6, `${growth} bytes more`)
})

test('W7: the memory of one large burst is released, not kept for ever', async () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<number>({ clock })
  queue.addAfter(-1, 1)
  clock.advance(1)
  takeAll(queue)
  await quiet()
  const before = await heldBytes()
  for (let i = 0; i < 300_000; i++) queue.addAfter(i, 1 + (i % 5))
  clock.advance(5)
  assert.equal(takeAll(queue).length, 300_000)
  await quiet()
  const enough = 300_000 * 10
  const kept = (await heldBytes(before + enough)) - before
  // client-go keeps the largest size of its maps and slices (kubernetes#116878).
  assert.ok(kept <= enough, `${kept} bytes kept`)
})

test('fifty thousand aborted gets leave no listeners and no getters behind', async () => {
  const queue = new WorkQueue<number>()
  const growth = await growthOf(async () => {
    for (let round = 0; round < 50; round++) {
      const quit = new AbortController()
      const gone = Array.from({ length: 1_000 }, () => queue.get({ signal: quit.signal }).catch(() => {}))
      quit.abort()
      await Promise.all(gone)
    }
  })
  assert.ok(growth < 2e6, `${growth} bytes more`)
  queue.add(1)
  assert.equal(queue.size, 1)
})
