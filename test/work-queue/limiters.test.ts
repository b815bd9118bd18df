/**
 * Contract, "Limiters":
 *  R1  Exponential: min(base * 2^failures, max), then times `1 - jitter * random()`; a zero base stays zero.
 *  R2  Fast/slow: fast while failures before this one < maxFastAttempts.
 *  R3  Bucket: starts full at `burst`, refills at `perSecond`, goes into debt: `when` = debt / rate;
 *  R4  infinite rate: 0; burst 0, or rate 0 once spent: Infinity; a clock going backwards adds nothing.
 *  R5  Max-of asks every limiter, answers the longest wait and the highest count.
 *  R6  `maxItems` keeps the most recently failing items.
 *  R7  `forget` does not cancel a pending add.
 *  R8  `addRateLimited` after shutdown counts nothing.
 *  R9  Queues pass key(item) as the second argument.
 *  R10 defaultControllerRateLimiter: max(5 ms..1000 s, 10/s burst 100); defaultItemBased: 1 ms..1000 s.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createFakeClock } from 'signalbox/testing'
import {
  BucketRateLimiter,
  defaultControllerRateLimiter,
  defaultItemBasedRateLimiter,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  MaxOfRateLimiter,
  type RateLimiter,
  RateLimitingQueue,
  WithMaxWaitRateLimiter,
} from 'signalbox/workqueue'
import { test } from 'vitest'
import { take, takeAll } from './probes.ts'

/** The waits of `count` failures in a row of one item. */
function waits<T>(limiter: RateLimiter<T>, item: T, count: number): number[] {
  return Array.from({ length: count }, () => limiter.when(item))
}

/** Answers always the same and writes down what it was asked. */
class Scripted implements RateLimiter<string> {
  readonly asked: unknown[][] = []
  answer: number
  constructor(answer: number) {
    this.answer = answer
  }
  when(...args: [string, unknown?]): number {
    this.asked.push(['when', ...args])
    return this.answer
  }
  forget(...args: [string, unknown?]): void {
    this.asked.push(['forget', ...args])
  }
  numRequeues(...args: [string, unknown?]): number {
    this.asked.push(['numRequeues', ...args])
    return this.answer
  }
}

test('R1: the wait doubles with each failure up to the maximum', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(5, 60)
  assert.deepEqual(waits(limiter, 'a', 6), [5, 10, 20, 40, 60, 60])
  assert.equal(limiter.numRequeues('a'), 6)
})

test('R1: each item has its own count, and forget resets it', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(1, 1_000)
  waits(limiter, 'a', 3)
  assert.deepEqual(waits(limiter, 'b', 2), [1, 2])
  assert.deepEqual([limiter.numRequeues('a'), limiter.numRequeues('b'), limiter.numRequeues('c')], [3, 2, 0])
  limiter.forget('a')
  limiter.forget('never seen')
  assert.deepEqual([limiter.numRequeues('a'), limiter.numRequeues('b')], [0, 2])
  assert.equal(limiter.when('a'), 1)
})

test('R1: a million failures cause no overflow', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(5, 1_000_000)
  let last = 0
  for (let i = 0; i < 1_000_000; i++) {
    const wait = limiter.when('a')
    if (!(wait >= last && wait <= 1_000_000)) assert.fail(`failure ${i} waits ${wait} after ${last}`)
    last = wait
  }
  assert.equal(last, 1_000_000)
  assert.equal(limiter.numRequeues('a'), 1_000_000)
})

test('R1: a zero base stays zero, also past 1024 failures', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(0, 1_000)
  assert.ok(waits(limiter, 'a', 3_000).every((wait) => Object.is(wait, 0)))
})

test('R1: a base above the maximum gives the maximum', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(500, 100)
  assert.deepEqual(waits(limiter, 'a', 3), [100, 100, 100])
})

test('R1: an infinite maximum grows until it waits for ever, never NaN', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(1, Number.POSITIVE_INFINITY)
  const all = waits(limiter, 'a', 2_000)
  assert.deepEqual(all.slice(0, 3), [1, 2, 4])
  assert.ok(all.every((wait) => !Number.isNaN(wait)))
  assert.equal(all.at(-1), Number.POSITIVE_INFINITY)
})

test('R1: the jitter shortens the wait by up to its share, after the maximum was applied', () => {
  let draw = 0
  const limiter = new ItemExponentialFailureRateLimiter<string>(100, 300, { jitter: 0.5, random: () => draw })
  assert.equal(limiter.when('a'), 100)
  draw = 0.5
  assert.equal(limiter.when('a'), 200 * 0.75)
  assert.equal(limiter.when('a'), 300 * 0.75)
  draw = 1
  assert.equal(limiter.when('a'), 150)
})

test('R1: without jitter random has no effect', () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(8, 64, { random: () => 0.9 })
  assert.deepEqual(waits(limiter, 'a', 4), [8, 16, 32, 64])
})

test('R1: by default the jitter draws from Math.random, and stays within its share', () => {
  const limiter = new ItemExponentialFailureRateLimiter<number>(1_000, 1_000, { jitter: 0.25 })
  const all = Array.from({ length: 500 }, (_, i) => limiter.when(i))
  assert.ok(all.every((wait) => wait > 750 && wait <= 1_000))
  assert.ok(new Set(all).size > 100, 'the draws differ')
})

test('R1: for any base, maximum and failure count the formula holds', () => {
  const amount = fc.double({ min: 0, max: 1e9, noNaN: true })
  const share = fc.double({ min: 0, max: 1, noNaN: true })
  fc.assert(
    fc.property(amount, amount, share, share, fc.nat(80), (base, max, jitter, draw, failures) => {
      const limiter = new ItemExponentialFailureRateLimiter<string>(base, max, { jitter, random: () => draw })
      waits(limiter, 'a', failures)
      const expected = Math.min(base * 2 ** failures, max) * (1 - jitter * draw)
      const wait = limiter.when('a')
      assert.ok(Math.abs(wait - expected) <= 1e-9 * Math.max(1, expected), `${wait} is not ${expected}`)
    }),
    { numRuns: 200 },
  )
})

test('R2: fast for the first attempts, then slow, until forgotten', () => {
  const limiter = new ItemFastSlowRateLimiter<string>(5, 500, 3)
  assert.deepEqual(waits(limiter, 'a', 5), [5, 5, 5, 500, 500])
  assert.deepEqual(waits(limiter, 'b', 1), [5])
  assert.equal(limiter.numRequeues('a'), 5)
  limiter.forget('a')
  assert.equal(limiter.numRequeues('a'), 0)
  assert.equal(limiter.when('a'), 5)
})

test('R2: zero fast attempts are allowed', () => {
  assert.deepEqual(waits(new ItemFastSlowRateLimiter<string>(5, 500, 0), 'a', 2), [500, 500])
})

test('R3: a bucket starts full at its burst, then waits grow by one token each', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(10, 3, { clock })
  assert.deepEqual(waits(limiter, 'a', 6), [0, 0, 0, 100, 200, 300])
})

test('R3: all items share a bucket; it counts nothing and forgets nothing', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(10, 1, { clock })
  assert.equal(limiter.when('a'), 0)
  assert.equal(limiter.when('b'), 100)
  assert.deepEqual([limiter.numRequeues('a'), limiter.numRequeues('b')], [0, 0])
  limiter.forget('a')
  limiter.forget('b')
  assert.equal(limiter.when('a'), 200)
})

test('R3: the debt shrinks with time, at the rate', () => {
  const clock = createFakeClock(77)
  const limiter = new BucketRateLimiter<string>(4, 2, { clock })
  assert.deepEqual(waits(limiter, 'a', 4), [0, 0, 250, 500])
  clock.advance(125)
  assert.equal(limiter.when('a'), 625)
  clock.advance(625)
  assert.equal(limiter.when('a'), 250, 'the debt was paid, nothing saved')
})

test('R3: a bucket refills up to its burst and no further', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(10, 2, { clock })
  waits(limiter, 'a', 2)
  clock.advance(100_000)
  assert.deepEqual(waits(limiter, 'a', 3), [0, 0, 100])
})

test('R3: a bucket that is first used late is no fuller than its burst', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(10, 1, { clock })
  clock.advance(60_000)
  assert.deepEqual(waits(limiter, 'a', 2), [0, 100])
})

test('R3: a partly refilled token shortens the wait', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(10, 1, { clock })
  limiter.when('a')
  clock.advance(25)
  assert.equal(limiter.when('a'), 75)
})

test('R4: an infinite rate never waits', () => {
  const limiter = new BucketRateLimiter<string>(Number.POSITIVE_INFINITY, 1, { clock: createFakeClock() })
  assert.ok(waits(limiter, 'a', 100).every((wait) => wait === 0))
})

test('R4: a bucket of burst 0 waits for ever, however much time passes', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(10, 0, { clock })
  assert.equal(limiter.when('a'), Number.POSITIVE_INFINITY)
  clock.advance(1e6)
  assert.equal(limiter.when('a'), Number.POSITIVE_INFINITY)
})

test('R4: a bucket of rate 0 gives its burst, then waits for ever', () => {
  const clock = createFakeClock()
  const limiter = new BucketRateLimiter<string>(0, 2, { clock })
  assert.deepEqual(waits(limiter, 'a', 4), [0, 0, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY])
  clock.advance(1e9)
  assert.equal(limiter.when('a'), Number.POSITIVE_INFINITY)
})

test('R4: a clock that goes backwards adds no tokens and takes none', () => {
  const clock = createFakeClock(50_000)
  const limiter = new BucketRateLimiter<string>(10, 1, { clock })
  assert.deepEqual(waits(limiter, 'a', 2), [0, 100])
  clock.jump(-20_000)
  assert.equal(limiter.when('a'), 200)
  const fresh = new BucketRateLimiter<string>(10, 2, { clock })
  clock.jump(-20_000)
  assert.deepEqual(waits(fresh, 'a', 3), [0, 0, 100])
})

test('R3: without a clock a bucket runs on the system clock', () => {
  const limiter = new BucketRateLimiter<string>(0.001, 1)
  assert.equal(limiter.when('a'), 0)
  const wait = limiter.when('a')
  assert.ok(wait > 900_000 && wait <= 1_000_000)
})

test('R5: max-of asks every limiter and returns the longest wait', () => {
  const limiters = [new Scripted(3), new Scripted(9), new Scripted(6)]
  const limiter = new MaxOfRateLimiter<string>(...limiters)
  assert.equal(limiter.when('a', 'key'), 9)
  for (const { asked } of limiters) assert.deepEqual(asked, [['when', 'a', 'key']])
})

test('R5: max-of returns the highest count and forgets everywhere', () => {
  const limiters = [new Scripted(3), new Scripted(9), new Scripted(6)]
  const limiter = new MaxOfRateLimiter<string>(...limiters)
  assert.equal(limiter.numRequeues('a', 'key'), 9)
  limiter.forget('a', 'key')
  for (const { asked } of limiters)
    assert.deepEqual(asked, [
      ['numRequeues', 'a', 'key'],
      ['forget', 'a', 'key'],
    ])
})

test('R5: max-of without limiters waits for nothing and counts nothing', () => {
  const limiter = new MaxOfRateLimiter<string>()
  assert.deepEqual([limiter.when('a'), limiter.numRequeues('a')], [0, 0])
  limiter.forget('a')
})

test('R5: an infinite wait is the longest', () => {
  const limiter = new MaxOfRateLimiter<string>(new Scripted(5), new Scripted(Number.POSITIVE_INFINITY))
  assert.equal(limiter.when('a'), Number.POSITIVE_INFINITY)
})

test('a maximum wait caps the answer of the inner limiter, and passes on everything else', () => {
  const inner = new Scripted(500)
  const limiter = new WithMaxWaitRateLimiter<string>(inner, 200)
  assert.equal(limiter.when('a', 'key'), 200)
  inner.answer = Number.POSITIVE_INFINITY
  assert.equal(limiter.when('a', 'key'), 200)
  inner.answer = 150
  assert.equal(limiter.when('a', 'key'), 150)
  assert.equal(limiter.numRequeues('a', 'key'), 150, 'a count is not cut off')
  inner.answer = 900
  assert.equal(limiter.numRequeues('a', 'key'), 900)
  limiter.forget('a', 'key')
  assert.deepEqual(inner.asked.at(-1), ['forget', 'a', 'key'])
  assert.ok(inner.asked.every(([, item, key]) => item === 'a' && key === 'key'))
})

const bounded: [string, (maxItems: number) => RateLimiter<string>][] = [
  ['exponential', (maxItems) => new ItemExponentialFailureRateLimiter<string>(1, 100, { maxItems })],
  ['fast/slow', (maxItems) => new ItemFastSlowRateLimiter<string>(1, 100, 3, { maxItems })],
]
for (const [name, create] of bounded) {
  test(`R6: ${name}: maxItems keeps the most recently failing items`, () => {
    const limiter = create(2)
    for (const item of ['a', 'b', 'a', 'c']) limiter.when(item)
    const counts = ['a', 'b', 'c'].map((item) => limiter.numRequeues(item))
    assert.deepEqual(counts, [2, 0, 1])
    limiter.when('b')
    assert.deepEqual(
      ['a', 'b', 'c'].map((item) => limiter.numRequeues(item)),
      [0, 1, 1],
    )
  })

  test(`R6: ${name}: reading the count does not make an item a recent failure`, () => {
    const limiter = create(2)
    limiter.when('a')
    limiter.when('b')
    limiter.numRequeues('a')
    limiter.when('c')
    assert.deepEqual(
      ['a', 'b', 'c'].map((item) => limiter.numRequeues(item)),
      [0, 1, 1],
    )
  })

  test(`R6: ${name}: a forgotten item frees its place`, () => {
    const limiter = create(2)
    limiter.when('a')
    limiter.when('b')
    limiter.forget('b')
    limiter.when('c')
    assert.deepEqual(
      ['a', 'b', 'c'].map((item) => limiter.numRequeues(item)),
      [1, 0, 1],
    )
  })

  test(`R6: ${name}: after any failures and forgets the most recently failing items keep their counts`, () => {
    const aStep = fc.record({ op: fc.constantFrom('when', 'when', 'when', 'forget'), item: fc.nat(6) })
    const property = fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.array(aStep, { maxLength: 60 }),
      (max, steps) => {
        const limiter = create(max)
        let recent: { item: string; count: number }[] = []
        for (const { op, item: number } of steps) {
          const item = String(number)
          const before = recent.find((each) => each.item === item)?.count ?? 0
          recent = recent.filter((each) => each.item !== item)
          if (op === 'when') recent = [...recent, { item, count: before + 1 }].slice(-max)
          if (op === 'when') limiter.when(item)
          else limiter.forget(item)
          for (let each = 0; each <= 6; each++) {
            const expected = recent.find((other) => other.item === String(each))?.count ?? 0
            assert.equal(limiter.numRequeues(String(each)), expected)
          }
        }
      },
    )
    fc.assert(property, { numRuns: 200 })
  })

  test(`R9: ${name}: items of one key fail together`, () => {
    const limiter = create(100)
    limiter.when('a', 'key')
    limiter.when('b', 'key')
    assert.equal(limiter.numRequeues('c', 'key'), 2)
    assert.equal(limiter.numRequeues('a'), 0, 'without a key the item is its own')
    limiter.forget('d', 'key')
    assert.equal(limiter.numRequeues('a', 'key'), 0)
  })

  test(`R6: ${name}: without maxItems nothing is dropped`, () => {
    const limiter = name === 'exponential' ? new ItemExponentialFailureRateLimiter<number>(1, 9) : undefined
    const any: RateLimiter<number> = limiter ?? new ItemFastSlowRateLimiter<number>(1, 9, 1)
    for (let i = 0; i < 20_000; i++) any.when(i)
    assert.equal(any.numRequeues(0), 1)
    assert.equal(any.numRequeues(19_999), 1)
  })
}

test('R10: the default controller limiter: 5 ms doubling to 1000 s for one item', () => {
  const clock = createFakeClock()
  const limiter = defaultControllerRateLimiter<string>(clock)
  const all = waits(limiter, 'a', 25)
  assert.deepEqual(all.slice(0, 5), [5, 10, 20, 40, 80])
  assert.equal(all[17], 5 * 2 ** 17)
  assert.equal(all[18], 1_000_000)
  assert.equal(all.at(-1), 1_000_000)
  assert.equal(limiter.numRequeues('a'), 25)
  limiter.forget('a')
  assert.equal(limiter.when('a'), 5)
})

test('R10: the default controller limiter: ten a second with a burst of 100 for all items', () => {
  const clock = createFakeClock()
  const limiter = defaultControllerRateLimiter<number>(clock)
  for (let i = 0; i < 100; i++) assert.equal(limiter.when(i), 5)
  assert.equal(limiter.when(100), 100)
  assert.equal(limiter.when(101), 200)
  clock.advance(60_000)
  assert.equal(limiter.when(102), 5)
})

test('R10: the default item based limiter: 1 ms doubling to 1000 s, and no bucket', () => {
  const limiter = defaultItemBasedRateLimiter<number>()
  assert.deepEqual(waits(limiter, 1, 4), [1, 2, 4, 8])
  for (let i = 0; i < 30; i++) limiter.when(1)
  assert.equal(limiter.when(1), 1_000_000)
  for (let i = 2; i < 500; i++) assert.equal(limiter.when(i), 1)
})

test('a rate limiting queue delays by the answer of its limiter', () => {
  const clock = createFakeClock()
  const rateLimiter = new ItemExponentialFailureRateLimiter<string>(5, 1_000)
  const queue = new RateLimitingQueue<string>({ clock, rateLimiter })
  assert.equal(queue.rateLimiter, rateLimiter)
  assert.equal(queue.addRateLimited('a', { priority: 3 }), true)
  assert.deepEqual([queue.readyAt('a'), queue.numRequeues('a'), queue.waiting], [5, 1, 1])
  clock.advance(5)
  const work = take(queue)
  assert.deepEqual([work.item, work.priority], ['a', 3])
  queue.done('a')
  assert.equal(queue.addRateLimited('a'), true)
  assert.equal(queue.readyAt('a'), 15)
  queue.forget('a')
  assert.equal(queue.numRequeues('a'), 0)
})

test('addRateLimited of a waiting item counts a failure, and the earliest time applies', () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<string>({
    clock,
    rateLimiter: new ItemExponentialFailureRateLimiter<string>(5, 1_000),
  })
  queue.addRateLimited('a')
  assert.equal(queue.addRateLimited('a'), false)
  assert.deepEqual([queue.numRequeues('a'), queue.readyAt('a'), queue.waiting], [2, 5, 1])
})

test('a wait of zero adds at once, a wait of Infinity waits for ever', () => {
  const clock = createFakeClock()
  const rateLimiter = new Scripted(0)
  const queue = new RateLimitingQueue<string>({ clock, rateLimiter })
  assert.equal(queue.addRateLimited('now'), true)
  assert.equal(queue.addRateLimited('now'), false)
  assert.deepEqual([queue.size, queue.waiting], [1, 0])
  rateLimiter.answer = Number.POSITIVE_INFINITY
  assert.equal(queue.addRateLimited('never'), true)
  assert.equal(queue.readyAt('never'), Number.POSITIVE_INFINITY)
  clock.advance(1e6)
  assert.equal(queue.waiting, 1)
  assert.equal(queue.cancelAfter('never'), true)
})

test('R7: forget does not cancel a pending add', () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<string>({ clock })
  queue.addRateLimited('a')
  queue.add('b')
  queue.forget('a')
  queue.forget('b')
  assert.deepEqual([queue.waiting, queue.size], [1, 1])
  clock.advance(5)
  assert.deepEqual(takeAll(queue), ['b', 'a'])
})

test('forget does not replace done', () => {
  const queue = new RateLimitingQueue<string>({ clock: createFakeClock() })
  queue.add('a')
  take(queue)
  queue.forget('a')
  assert.equal(queue.processing, 1)
})

test('R8: addRateLimited after shutdown counts nothing and does not ask the limiter', () => {
  const rateLimiter = new Scripted(5)
  const queue = new RateLimitingQueue<string>({ clock: createFakeClock(), rateLimiter })
  queue.shutDown()
  assert.equal(queue.addRateLimited('a'), false)
  assert.deepEqual(rateLimiter.asked, [])
  assert.equal(queue.stats().retries, 0)

  const usual = new RateLimitingQueue<string>({ clock: createFakeClock() })
  usual.add('a')
  take(usual)
  void usual.shutDownWithDrain()
  assert.equal(usual.addRateLimited('a'), false)
  assert.equal(usual.numRequeues('a'), 0)
})

test('R9: queues pass the item and its key to the limiter', () => {
  const rateLimiter = new Scripted(5)
  const queue = new RateLimitingQueue<string>({
    clock: createFakeClock(),
    rateLimiter,
    key: (item) => item.toUpperCase(),
  })
  queue.addRateLimited('a')
  assert.equal(queue.numRequeues('b'), 5)
  queue.forget('c')
  assert.deepEqual(rateLimiter.asked, [
    ['when', 'a', 'A'],
    ['numRequeues', 'b', 'B'],
    ['forget', 'c', 'C'],
  ])
})

test('R9: without a key function the item itself is the key', () => {
  const rateLimiter = new Scripted(5)
  const queue = new RateLimitingQueue<string>({ clock: createFakeClock(), rateLimiter })
  queue.addRateLimited('a')
  assert.deepEqual(rateLimiter.asked, [['when', 'a', 'a']])
})

test('R9: with a key function failures are counted by key, not by object', () => {
  const queue = new RateLimitingQueue<{ id: number }>({ clock: createFakeClock(), key: ({ id }) => id })
  queue.addRateLimited({ id: 1 })
  queue.addRateLimited({ id: 1 })
  assert.equal(queue.numRequeues({ id: 1 }), 2)
  queue.forget({ id: 1 })
  assert.equal(queue.numRequeues({ id: 1 }), 0)
})

test('R10: by default a queue has the default controller limiter, on the clock of the queue', () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<number>({ clock })
  for (let i = 0; i < 101; i++) queue.addRateLimited(i)
  assert.deepEqual([queue.readyAt(0), queue.readyAt(99), queue.readyAt(100)], [5, 5, 100])
  clock.advance(60_000)
  queue.addRateLimited(200)
  assert.equal(queue.readyAt(200), 60_005, 'the bucket refilled while the fake clock moved')
})

test('two queues have separate limiters by default', () => {
  const one = new RateLimitingQueue<string>({ clock: createFakeClock() })
  const two = new RateLimitingQueue<string>({ clock: createFakeClock() })
  one.addRateLimited('a')
  assert.equal(two.numRequeues('a'), 0)
  assert.notEqual(one.rateLimiter, two.rateLimiter)
})

test('an error of a limiter reaches the caller and leaves the queue as it was', () => {
  const rateLimiter = new Scripted(5)
  const queue = new RateLimitingQueue<string>({ clock: createFakeClock(), rateLimiter })
  queue.add('a')
  const before = queue.stats()
  rateLimiter.when = () => {
    throw new TypeError('no wait')
  }
  assert.throws(() => queue.addRateLimited('b'), /no wait/)
  rateLimiter.when = () => Number.NaN
  assert.throws(() => queue.addRateLimited('b'), RangeError)
  assert.deepEqual(queue.stats(), before)
})

test('a key function that throws in addRateLimited, forget or numRequeues counts nothing', () => {
  let broken = true
  const rateLimiter = new Scripted(5)
  const queue = new RateLimitingQueue<string>({
    clock: createFakeClock(),
    rateLimiter,
    key: (item) => {
      if (broken) throw new TypeError('no key')
      return item
    },
  })
  assert.throws(() => queue.addRateLimited('a'), /no key/)
  assert.throws(() => queue.forget('a'), /no key/)
  assert.throws(() => queue.numRequeues('a'), /no key/)
  assert.deepEqual(rateLimiter.asked, [])
  broken = false
  assert.deepEqual([queue.waiting, queue.size, queue.stats().retries], [0, 0, 0])
})
