/** Numbers that make no sense: a RangeError that names the option, and a queue that is as it was. */
import assert from 'node:assert/strict'
import {
  BucketRateLimiter,
  DelayingQueue,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  parallelizeUntil,
  RateLimitingQueue,
  WithMaxWaitRateLimiter,
  WorkQueue,
} from 'signalbox/workqueue'
import { test } from 'vitest'

const noNumbers = [Number.NaN, -1, Number.NEGATIVE_INFINITY]

function isRangeErrorAbout(name: string) {
  return (error: unknown) =>
    error instanceof RangeError && error.message.includes(name) && error.message.length > 20
}

test('every way to add refuses a priority that is not a number, and adds nothing', () => {
  const queue = new RateLimitingQueue<string>()
  for (const priority of [Number.NaN, '1' as unknown as number]) {
    assert.throws(() => queue.add('a', { priority }), isRangeErrorAbout('priority'))
    assert.throws(() => queue.addAfter('a', 5, { priority }), isRangeErrorAbout('priority'))
    assert.throws(() => queue.addAfter('a', 0, { priority }), isRangeErrorAbout('priority'))
    assert.throws(() => queue.addRateLimited('a', { priority }), isRangeErrorAbout('priority'))
  }
  const { adds, depth, waiting, retries } = queue.stats()
  assert.deepEqual({ adds, depth, waiting, retries }, { adds: 0, depth: 0, waiting: 0, retries: 0 })
  assert.equal(queue.numRequeues('a'), 0, 'a refused add is no failure of the item')
})

test('a delay that is not a number is refused, and a waiting item keeps its due time', () => {
  const queue = new DelayingQueue<string>()
  queue.addAfter('a', 1_000)
  const dueAt = queue.readyAt('a')
  for (const ms of [Number.NaN, '5' as unknown as number, undefined as unknown as number]) {
    assert.throws(() => queue.addAfter('a', ms, { replace: true }), isRangeErrorAbout('addAfter'))
  }
  assert.equal(queue.readyAt('a'), dueAt)
  assert.equal(queue.stats().retries, 1)
  queue.shutDown()
})

test('a size limit that no size can be below is refused', async () => {
  for (const limit of [...noNumbers, 0]) {
    await assert.rejects(new WorkQueue().onSizeLessThan(limit), isRangeErrorAbout('onSizeLessThan'))
  }
})

test('a run with an invalid concurrency or number of retries is refused before it takes an item', async () => {
  for (const queue of [new WorkQueue<string>(), new RateLimitingQueue<string>()]) {
    queue.add('a')
    for (const concurrency of [...noNumbers, 0, 0.5]) {
      await assert.rejects(
        queue.run(() => {}, { concurrency }),
        isRangeErrorAbout('concurrency'),
      )
    }
    for (const maxRetries of noNumbers) {
      await assert.rejects(
        queue.run(() => {}, { maxRetries }),
        isRangeErrorAbout('maxRetries'),
      )
    }
    assert.deepEqual([queue.size, queue.processing], [1, 0])
  }
})

test('limiters refuse invalid delays, rates and bounds', () => {
  for (const bad of noNumbers) {
    for (const [make, name] of [
      [() => new ItemExponentialFailureRateLimiter(bad, 10), 'baseDelay'],
      [() => new ItemExponentialFailureRateLimiter(1, bad), 'maxDelay'],
      [() => new ItemExponentialFailureRateLimiter(1, 10, { jitter: bad }), 'jitter'],
      [() => new ItemExponentialFailureRateLimiter(1, 10, { maxItems: bad }), 'maxItems'],
      [() => new ItemFastSlowRateLimiter(bad, 10, 1), 'fastDelay'],
      [() => new ItemFastSlowRateLimiter(1, bad, 1), 'slowDelay'],
      [() => new ItemFastSlowRateLimiter(1, 10, bad), 'maxFastAttempts'],
      [() => new ItemFastSlowRateLimiter(1, 10, 1, { maxItems: bad }), 'maxItems'],
      [() => new BucketRateLimiter(bad, 1), 'perSecond'],
      [() => new BucketRateLimiter(1, bad), 'burst'],
      [() => new WithMaxWaitRateLimiter(new BucketRateLimiter(1, 1), bad), 'maxDelay'],
    ] as const) {
      assert.throws(make, isRangeErrorAbout(name))
    }
  }
  assert.throws(
    () => new ItemExponentialFailureRateLimiter(1, 10, { jitter: 1.1 }),
    isRangeErrorAbout('jitter'),
  )
  assert.throws(
    () => new ItemExponentialFailureRateLimiter(1, 10, { maxItems: 0 }),
    isRangeErrorAbout('maxItems'),
  )
})

test('a custom limiter that returns no number gets an error, and the item does not wait', () => {
  const rateLimiter = { when: () => Number.NaN, forget: () => {}, numRequeues: () => 0 }
  const queue = new RateLimitingQueue<string>({ rateLimiter })
  assert.throws(() => queue.addRateLimited('a'), isRangeErrorAbout('addAfter'))
  assert.equal(queue.waiting, 0)
})

test('parallelizeUntil refuses zero workers and an invalid number of pieces', async () => {
  const never = () => assert.fail('a piece was begun')
  for (const bad of noNumbers) {
    await assert.rejects(parallelizeUntil(bad, 3, never), isRangeErrorAbout('workers'))
    await assert.rejects(parallelizeUntil(1, bad, never), isRangeErrorAbout('pieces'))
  }
  await assert.rejects(parallelizeUntil(0, 3, never), isRangeErrorAbout('workers'))
})

test('an error in a metrics hook is printed and harms nothing', async (context) => {
  const printed: unknown[] = []
  const { error } = console
  console.error = (...words: unknown[]) => void printed.push(words)
  context.onTestFinished(() => {
    console.error = error
  })
  const broken = () => {
    throw new Error('the metrics are down')
  }
  const queue = new RateLimitingQueue<string>({
    metrics: {
      depth: { inc: broken, dec: broken },
      adds: { inc: broken },
      retries: { inc: broken },
      latency: { observe: broken },
      workDuration: { observe: broken },
    },
  })
  const blocked = queue.get()
  assert.equal(queue.add('a'), true)
  assert.equal((await blocked).item, 'a')
  assert.equal(queue.done('a'), true)
  assert.equal(queue.addAfter('a', 0), true)
  assert.deepEqual([queue.size, queue.processing, queue.stats().retries], [1, 0, 1])
  assert.equal(printed.length, 8)
})
