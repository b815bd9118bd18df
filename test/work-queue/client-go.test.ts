/**
 * Known faults of client-go and its kin, by name: the six that its July 2026 head shows when it is
 * tried, those its users reported, and JavaScript's own traps. None of them may be ours.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { createFakeClock } from 'signalbox/testing'
import {
  BucketRateLimiter,
  DelayingQueue,
  defaultControllerRateLimiter,
  FairQueue,
  ItemExponentialFailureRateLimiter,
  RateLimitingQueue,
  WithMaxWaitRateLimiter,
  WorkQueue,
} from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, take, takeAll } from './probes.ts'

test('fault 1 (kubernetes#141079): a drain does not return with items still queued', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b']) queue.add(item)
  take(queue)
  const drained = queue.shutDownWithDrain()
  queue.done('a')
  assert.equal(await isOpen(drained), true)
  takeAll(queue)
  await drained
})

test('fault 1 (kubernetes#141079): a drain does not return when done re-queues a dirty item', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  const drained = queue.shutDownWithDrain()
  queue.done('a')
  assert.equal(await isOpen(drained), true)
  assert.deepEqual(takeAll(queue), ['a'])
  await drained
})

test('fault 2: two callers of a drain are both woken', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  const drains = [queue.shutDownWithDrain(), queue.shutDownWithDrain()]
  queue.done('a')
  await Promise.all(drains)
})

test('fault 3 (kubernetes#79934, virtual-kubelet#937): done without get queues no second copy', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  assert.equal(queue.done('a'), false)
  take(queue)
  assert.equal(queue.tryGet(), undefined, 'the item is in flight once only')
  assert.equal(queue.size, 0)
})

test('fault 4 (kubernetes#126027): with coalesce addAfter and then add give one run', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock, coalesce: true })
  queue.addAfter('x', 80)
  queue.add('x')
  assert.deepEqual(takeAll(queue), ['x'])
  clock.advance(1_000)
  assert.deepEqual(takeAll(queue), [])
})

test('fault 4 (kubernetes#126027): with coalesce addAfter(x, 80) and then addAfter(x, 0) give one run', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock, coalesce: true })
  queue.addAfter('x', 80)
  queue.addAfter('x', 0)
  assert.deepEqual(takeAll(queue), ['x'])
  clock.advance(1_000)
  assert.deepEqual(takeAll(queue), [])
})

test('fault 5 (kubernetes#134323): the drain of a delaying queue leaves no timer', async () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 60_000)
  await queue.shutDownWithDrain()
  assert.equal(clock.timerCount, 0)
})

test('fault 5: shutDown, drain, shutDown does not leave the drain blocked', async () => {
  for (const queue of [
    new WorkQueue<string>(),
    new DelayingQueue<string>(),
    new RateLimitingQueue<string>(),
  ]) {
    queue.add('a')
    queue.shutDown()
    const drained = queue.shutDownWithDrain()
    assert.equal(await isOpen(drained), true)
    queue.shutDown()
    await drained
  }
})

test('fault 6: an exponential limiter of base 0 never turns negative', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(0, 1_000)
  for (let i = 0; i < 1_100; i++) assert.equal(limiter.when('a'), 0)
})

test('kubernetes#119554: a drain and a shutDown do not dead-lock, whichever comes first', async () => {
  for (const first of ['drain', 'shutDown'] as const) {
    const queue = new WorkQueue<string>()
    queue.add('a')
    take(queue)
    if (first === 'shutDown') queue.shutDown()
    const drained = queue.shutDownWithDrain()
    queue.shutDown()
    await drained
    assert.equal(queue.done('a'), true)
  }
})

test('kubernetes#101928: a drain waits for the items in flight', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  const drained = queue.shutDownWithDrain()
  assert.equal(await isOpen(drained), true)
  queue.done('a')
  await drained
})

test('controller-runtime#3540: shutting down twice, also by a drain, is not an error', async () => {
  const queue = new RateLimitingQueue<string>()
  queue.shutDown()
  queue.shutDown()
  await queue.shutDownWithDrain()
  await queue.shutDownWithDrain()
})

test('controller-runtime: shutDown does not abandon queued items', () => {
  const queue = new WorkQueue<string>()
  queue.add('a', { priority: 1 })
  queue.shutDown()
  assert.deepEqual(takeAll(queue), ['a'])
})

test('kubernetes#91800, #131185: one blocked get can be stopped, the queue stays up', async () => {
  const queue = new WorkQueue<string>()
  const quit = new AbortController()
  const got = queue.get({ signal: quit.signal })
  quit.abort()
  await assert.rejects(got)
  assert.equal(queue.add('a'), true)
})

test('client-go#131, kubernetes#133560: a delayed add can be cancelled and postponed', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 10)
  queue.addAfter('b', 10)
  assert.equal(queue.cancelAfter('a'), true)
  queue.addAfter('b', 50, { replace: true })
  clock.advance(49)
  assert.equal(queue.size, 0)
  clock.advance(1)
  assert.deepEqual(takeAll(queue), ['b'])
})

test('kubernetes#133545: the items in backoff can be listed', () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<string>({ clock })
  queue.addRateLimited('a')
  assert.deepEqual([queue.waiting, queue.readyAt('a'), queue.stats().waiting], [1, 5, 1])
})

test('kubernetes#25744: a noisy tenant does not delay the others', () => {
  const queue = new WorkQueue<string>({ queue: new FairQueue((item: string) => item[0]) })
  for (let i = 0; i < 100; i++) queue.add(`a${i}`)
  queue.add('b0')
  assert.deepEqual([take(queue).item, take(queue).item], ['a0', 'b0'])
})

test('kubernetes#104554: the default bucket repays its debt at 10 a second, and a maximum wait bounds it', () => {
  const clock = createFakeClock()
  const debt = defaultControllerRateLimiter<number>(clock)
  const bounded = new WithMaxWaitRateLimiter(defaultControllerRateLimiter<number>(clock), 30_000)
  let last = 0
  let lastBounded = 0
  for (let i = 0; i < 10_000; i++) {
    last = debt.when(i)
    lastBounded = bounded.when(i)
  }
  assert.ok(Math.abs(last - 990_000) < 1e-3)
  assert.equal(lastBounded, 30_000)
})

test('a bucket runs on the given clock, not on the system’s', () => {
  const clock = createFakeClock()
  const bucket = new BucketRateLimiter<string>(1, 1, { clock })
  bucket.when('a')
  clock.advance(1_000)
  assert.equal(bucket.when('a'), 0)
})

test('unlike client-go, the queue counts no failure for a refused add', () => {
  const queue = new RateLimitingQueue<string>()
  queue.shutDown()
  queue.addRateLimited('a')
  assert.equal(queue.numRequeues('a'), 0)
})

test('kubernetes-client/java#2435: a step of the wall clock does not move a delay', () => {
  const realNow = Date.now
  try {
    const queue = new DelayingQueue<string>()
    const before = performance.now()
    queue.addAfter('a', 60_000)
    const dueAt = queue.readyAt('a')!
    Date.now = () => realNow() + 3_600_000
    queue.addAfter('b', 60_000)
    assert.ok(dueAt >= before + 60_000 && dueAt <= performance.now() + 60_000)
    assert.ok(queue.readyAt('b')! - dueAt < 5_000)
    assert.deepEqual([queue.size, queue.waiting], [0, 2])
    queue.shutDown()
  } finally {
    Date.now = realNow
  }
})

test('addAfter never blocks, however many items wait', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<number>({ clock })
  for (let i = 0; i < 5_000; i++) assert.equal(queue.addAfter(i, 10), true)
  assert.equal(queue.waiting, 5_000)
  clock.advance(10)
  assert.equal(queue.size, 5_000)
})

test('a key function makes equal objects one item', () => {
  const queue = new WorkQueue<{ name: string }>({ key: ({ name }) => name })
  assert.equal(queue.add({ name: 'web' }), true)
  assert.equal(queue.add({ name: 'web' }), false)
  take(queue)
  assert.equal(queue.add({ name: 'web' }), true)
  assert.equal(queue.done({ name: 'web' }), true)
  assert.equal(queue.size, 1)
})

test('kubernetes#83895, #94811, #133524: a thousand idle queues arm no timer', () => {
  const clock = createFakeClock()
  const queues = Array.from({ length: 1_000 }, () => new RateLimitingQueue<string>({ clock, metrics: {} }))
  for (const queue of queues) {
    queue.add('a')
    takeAll(queue)
  }
  assert.equal(clock.timerCount, 0)
})

test('p-queue#235: listeners do not pile up on a long-lived signal', async () => {
  const queue = new WorkQueue<number>()
  const { signal } = new AbortController()
  for (let i = 0; i < 100; i++) {
    const got = queue.get({ signal })
    queue.add(i)
    await got
    queue.done(i)
    await queue.onIdle({ signal })
    await queue.onSizeLessThan(1, { signal })
  }
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('controller-runtime#3408: a raised item goes to the end of its new level', () => {
  const queue = new WorkQueue<string>()
  queue.add('raised')
  queue.add('urgent', { priority: 1 })
  queue.add('raised', { priority: 1 })
  assert.deepEqual(takeAll(queue), ['urgent', 'raised'])
})

test('controller-runtime#3416: an item that becomes due counts as added then', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('delayed', 10)
  clock.advance(5)
  queue.add('before')
  clock.advance(5)
  queue.add('after')
  assert.deepEqual(takeAll(queue), ['before', 'delayed', 'after'])
})
