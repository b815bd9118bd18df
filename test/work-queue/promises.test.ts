/** The promises W1 to W7 of Signalbox, each by its name; W7's memory part is in memory.test.ts. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createFakeClock } from 'signalbox/testing'
import {
  DelayingQueue,
  defaultControllerRateLimiter,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  type RateLimiter,
  RateLimitingQueue,
  WorkQueue,
} from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, quiet, take, takeAll } from './probes.ts'

test('W1: two gets never return the same key without a done between them', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom('add', 'get', 'done'), fc.nat(3)), { maxLength: 60 }),
      async (steps) => {
        const queue = new WorkQueue<number>()
        const inFlight = new Set<number>()
        for (const [step, item] of steps) {
          if (step === 'add') queue.add(item)
          if (step === 'get')
            void queue.get().then((work) => {
              if (work.shutdown) return
              if (inFlight.has(work.item)) assert.fail(`${work.item} is in flight twice`)
              inFlight.add(work.item)
            })
          await quiet()
          if (step === 'done') assert.equal(queue.done(item), inFlight.delete(item))
          await quiet()
          assert.equal(queue.processing, inFlight.size)
        }
        queue.shutDown()
      },
    ),
    { numRuns: 100 },
  )
})

test('W2: adds before get coalesce to one; adds while processing give exactly one more run', () => {
  for (const adds of [1, 2, 10]) {
    const queue = new WorkQueue<string>()
    for (let i = 0; i < adds; i++) queue.add('a')
    take(queue)
    assert.equal(queue.tryGet(), undefined)
    for (let i = 0; i < adds; i++) queue.add('a')
    queue.done('a')
    take(queue)
    queue.done('a')
    assert.equal(queue.tryGet(), undefined)
  }
})

test('W3: the order is that of the first dirty add', () => {
  const queue = new WorkQueue<string>()
  for (const item of ['b', 'a', 'c', 'a', 'b']) queue.add(item)
  assert.deepEqual(takeAll(queue), ['b', 'a', 'c'])
})

test('W3: addAfter never fires early on the real clock, and the earliest deadline wins', async () => {
  const queue = new DelayingQueue<string>()
  const start = performance.now()
  queue.addAfter('a', 60_000)
  queue.addAfter('a', 12.3)
  queue.addAfter('a', 30_000)
  assert.equal((await queue.get()).item, 'a')
  assert.ok(performance.now() - start >= 12.3)
  assert.equal(queue.waiting, 0)
})

const growing: [string, () => RateLimiter<string>][] = [
  ['exponential', () => new ItemExponentialFailureRateLimiter<string>(5, 1_000_000)],
  ['fast/slow', () => new ItemFastSlowRateLimiter<string>(5, 1_000, 10)],
  ['default', () => defaultControllerRateLimiter<string>(createFakeClock())],
]
for (const [name, create] of growing) {
  test(`W4: ${name}: the delay is monotone, forget resets it`, () => {
    const limiter = create()
    const first = limiter.when('a')
    let last = first
    for (let i = 0; i < 5_000; i++) {
      const wait = limiter.when('a')
      if (!(wait >= last && Number.isFinite(wait))) assert.fail(`${wait} after ${last}`)
      last = wait
    }
    assert.ok(last > first)
    limiter.forget('a')
    assert.equal(limiter.numRequeues('a'), 0)
    if (name !== 'default') assert.equal(limiter.when('a'), first)
  })
}

test('W4: no overflow at a million failures', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(1, 1_000_000, { jitter: 0.1 })
  for (let i = 0; i < 1_000_000; i++) limiter.when('a')
  const wait = limiter.when('a')
  assert.ok(wait >= 900_000 && wait <= 1_000_000)
})

test('W5: shutdown wakes every blocked getter', async () => {
  const queue = new WorkQueue<string>()
  const gets = Array.from({ length: 50 }, () => queue.get())
  const run = queue.run(() => {}, { concurrency: 5 })
  const iteration = queue[Symbol.asyncIterator]().next()
  queue.shutDown()
  assert.ok((await Promise.all(gets)).every(({ shutdown }) => shutdown))
  await run
  assert.equal((await iteration).done, true)
})

test('W5: a drain resolves when nothing is queued or in flight, re-added items included', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b']) queue.add(item)
  take(queue)
  queue.add('a')
  const drained = queue.shutDownWithDrain()
  for (const _ of [1, 2, 3]) {
    assert.equal(await isOpen(drained), true)
    for (const item of ['a', 'b']) queue.done(item)
    queue.tryGet()
  }
  for (const item of ['a', 'b']) queue.done(item)
  await drained
  assert.deepEqual([queue.size, queue.processing], [0, 0])
})

test('W5: a drain resolves when a later shutDown ends the wait; waiting items are dropped', async () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.add('a')
  queue.addAfter('b', 10)
  const drained = queue.shutDownWithDrain()
  assert.equal(queue.waiting, 0)
  assert.equal(await isOpen(drained), true)
  queue.shutDown()
  await drained
})

test('W6: done of an item not in flight returns false and changes nothing', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock, metrics: {} })
  queue.add('queued')
  queue.addAfter('waiting', 10)
  queue.add('taken', { priority: 1 })
  take(queue)
  const before = queue.stats()
  for (const item of ['queued', 'waiting', 'unknown']) assert.equal(queue.done(item), false)
  assert.deepEqual(queue.stats(), before)
  assert.equal(queue.done('taken'), true)
})

test('W7: after all keys are done and forgotten no timer is left and every count is 0', () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<number>({ clock })
  for (let i = 0; i < 500; i++) {
    queue.add(i)
    queue.addAfter(i, i % 13)
    queue.addRateLimited(i)
  }
  for (let i = 0; i < 100; i++) {
    clock.advance(1_000)
    takeAll(queue)
  }
  for (let i = 0; i < 500; i++) queue.forget(i)
  assert.equal(clock.timerCount, 0)
  const { depth, size, processing, waiting } = queue.stats()
  assert.deepEqual({ depth, size, processing, waiting }, { depth: 0, size: 0, processing: 0, waiting: 0 })
  for (let i = 0; i < 500; i++) assert.equal(queue.numRequeues(i), 0)
})
