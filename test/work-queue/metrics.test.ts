/**
 * Contract, "Metrics" and the comments on Metrics and QueueStats:
 *  M1  `adds` and `depth` move when an item becomes pending in the queue (delayed ones when due);
 *  M2  repeated adds do not count.
 *  M3  `depth` falls on get.
 *  M4  `latency` runs from the add that made it pending to get,
 *  M5  `workDuration` from get to done.
 *  M6  `retries` counts every accepted `addAfter` and `addRateLimited`.
 *  M7  every member optional; prom-client children fit.
 *  M8  stats: pulled at scrape time; unfinishedWorkSeconds and longestRunningProcessorSeconds with `metrics`
 *      only; {} is enough. `name` is shown in stats().
 */
import assert from 'node:assert/strict'
import { createFakeClock, type FakeClock } from 'signalbox/testing'
import { DelayingQueue, type Metrics, RateLimitingQueue, WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, take } from './probes.ts'

/** Counters and histograms as prom-client makes them: classes whose methods need their `this`. */
class Gauge {
  #value = 0
  readonly #calls: number[] = []
  inc(...args: unknown[]): void {
    this.#count(args, 1)
  }
  dec(...args: unknown[]): void {
    this.#count(args, -1)
  }
  get value(): number {
    return this.#value
  }
  get calls(): readonly number[] {
    return this.#calls
  }
  #count(args: unknown[], step: number): void {
    assert.deepEqual(args, [], 'inc and dec are called without arguments')
    this.#value += step
    this.#calls.push(step)
  }
}
class Histogram {
  readonly #seen: number[] = []
  observe(seconds: number): void {
    this.#seen.push(seconds)
  }
  get seen(): readonly number[] {
    return this.#seen
  }
}
interface Meters extends Required<Metrics> {
  depth: Gauge
  adds: Gauge
  retries: Gauge
  latency: Histogram
  workDuration: Histogram
}

function metered(coalesce = false): { queue: RateLimitingQueue<string>; clock: FakeClock; meters: Meters } {
  const clock = createFakeClock(1_000)
  const meters: Meters = {
    depth: new Gauge(),
    adds: new Gauge(),
    retries: new Gauge(),
    latency: new Histogram(),
    workDuration: new Histogram(),
  }
  return { queue: new RateLimitingQueue<string>({ clock, metrics: meters, coalesce }), clock, meters }
}

test('M1, M2: adds and depth move with the add that makes an item pending, not with repeated ones', () => {
  const { queue, meters } = metered()
  queue.add('a')
  queue.add('a', { priority: 3 })
  queue.add('b')
  assert.deepEqual([meters.adds.value, meters.depth.value], [2, 2])
  assert.deepEqual([queue.stats().adds, queue.stats().depth], [2, 2])
})

test('M1: an item re-added in flight counts once, at the add, and not when it enters the store', () => {
  const { queue, meters } = metered()
  queue.add('a')
  take(queue)
  queue.add('a')
  queue.add('a')
  assert.deepEqual([meters.adds.value, meters.depth.value], [2, 1])
  queue.done('a')
  assert.deepEqual([meters.adds.value, meters.depth.value], [2, 1])
  assert.deepEqual([queue.stats().adds, queue.stats().depth], [2, 1])
})

test('M1: delayed items count when due', () => {
  const { queue, clock, meters } = metered()
  queue.addAfter('a', 10)
  assert.deepEqual([meters.adds.value, meters.depth.value, queue.stats().adds], [0, 0, 0])
  clock.advance(10)
  assert.deepEqual([meters.adds.value, meters.depth.value, queue.stats().adds], [1, 1, 1])
})

test('M1, M2: a delayed item that becomes due while queued does not count again', () => {
  const { queue, clock, meters } = metered()
  queue.addAfter('a', 10)
  queue.add('a')
  clock.advance(10)
  assert.deepEqual([meters.adds.value, meters.depth.value], [1, 1])
})

test('M1: cancelled and dropped delays never count', () => {
  const { queue, clock, meters } = metered()
  queue.addAfter('a', 10)
  queue.cancelAfter('a')
  queue.addAfter('b', 10)
  queue.shutDown()
  clock.advance(100)
  assert.deepEqual([meters.adds.value, meters.depth.calls.length], [0, 0])
})

test('M1: refused adds do not count', () => {
  const { queue, meters } = metered()
  queue.shutDown()
  queue.add('a')
  queue.addAfter('a', 5)
  queue.addAfter('a', 0)
  queue.addRateLimited('a')
  assert.deepEqual([meters.adds.value, meters.depth.value, meters.retries.value], [0, 0, 0])
})

test('M3: depth falls on get, not on done', () => {
  const { queue, meters } = metered()
  queue.add('a')
  take(queue)
  assert.equal(meters.depth.value, 0)
  queue.done('a')
  queue.done('a')
  assert.deepEqual(meters.depth.calls, [1, -1])
})

test('M1, M3, M4: an item given to a blocked getter counts like any other, with no latency', async () => {
  const { queue, meters } = metered()
  const got = queue.get()
  queue.add('a')
  assert.deepEqual(meters.depth.calls, [1, -1])
  assert.equal(meters.adds.value, 1)
  assert.deepEqual(meters.latency.seen, [0])
  await got
})

test('M4: latency is in seconds, from the first add that made the item pending', () => {
  const { queue, clock, meters } = metered()
  queue.add('a')
  clock.advance(400)
  queue.add('a', { priority: 5 })
  clock.advance(1_100)
  take(queue)
  assert.deepEqual(meters.latency.seen, [1.5])
})

test('M4: the latency of a re-added item runs from the add in flight, not from done', () => {
  const { queue, clock, meters } = metered()
  queue.add('a')
  take(queue)
  clock.advance(1_000)
  queue.add('a')
  clock.advance(250)
  queue.add('a')
  clock.advance(250)
  queue.done('a')
  clock.advance(500)
  take(queue)
  assert.deepEqual(meters.latency.seen, [0, 1])
})

test('M4: the latency of a delayed item runs from its due time', () => {
  const { queue, clock, meters } = metered()
  queue.addAfter('a', 5_000)
  clock.advance(5_000)
  clock.advance(2_000)
  take(queue)
  assert.deepEqual(meters.latency.seen, [2])
})

test('M4: a delayed add that becomes due on a queued item leaves its latency running from the first add', () => {
  const { queue, clock, meters } = metered()
  queue.add('a')
  queue.addAfter('a', 1_000)
  clock.advance(3_000)
  take(queue)
  assert.deepEqual(meters.latency.seen, [3])
})

test('M5: workDuration runs from get to done, in seconds; a stray done is not observed', () => {
  const { queue, clock, meters } = metered()
  queue.add('a')
  clock.advance(500)
  take(queue)
  clock.advance(2_500)
  queue.done('other')
  assert.deepEqual(meters.workDuration.seen, [])
  queue.done('a')
  queue.done('a')
  assert.deepEqual(meters.workDuration.seen, [2.5])
})

test('M5: disposing of a Work observes its duration once', () => {
  const { queue, clock, meters } = metered()
  queue.add('a')
  const work = take(queue)
  clock.advance(250)
  work[Symbol.dispose]()
  work[Symbol.dispose]()
  assert.deepEqual(meters.workDuration.seen, [0.25])
})

test('M5: each turn of an item is measured separately', () => {
  const { queue, clock, meters } = metered()
  queue.add('a')
  take(queue)
  clock.advance(1_000)
  queue.add('a')
  queue.done('a')
  clock.advance(1_000)
  take(queue)
  clock.advance(500)
  queue.done('a')
  assert.deepEqual(meters.workDuration.seen, [1, 0.5])
})

test('M6: retries counts every accepted addAfter and addRateLimited, whatever its delay and effect', () => {
  const { queue, meters } = metered()
  queue.addAfter('a', 10)
  queue.addAfter('a', 10)
  queue.addAfter('a', 0)
  queue.addAfter('a', -1)
  queue.addAfter('b', Number.POSITIVE_INFINITY)
  assert.equal(meters.retries.value, 5)
  queue.addRateLimited('c')
  assert.equal(meters.retries.value, 6)
  queue.add('d')
  assert.deepEqual([meters.retries.value, queue.stats().retries], [6, 6])
})

test('M6: an addRateLimited without a wait is one retry', () => {
  const meter = new Gauge()
  const queue = new RateLimitingQueue<string>({
    clock: createFakeClock(),
    metrics: { retries: meter },
    rateLimiter: { when: () => 0, forget() {}, numRequeues: () => 0 },
  })
  queue.addRateLimited('a')
  assert.deepEqual([meter.value, queue.stats().retries], [1, 1])
})

test('M7: any member of the metrics may be missing', () => {
  const members: (keyof Metrics)[] = ['depth', 'adds', 'retries', 'latency', 'workDuration']
  for (const member of members) {
    const { meters } = metered()
    const clock = createFakeClock()
    const queue = new DelayingQueue<string>({ clock, metrics: { [member]: meters[member] } })
    queue.add('a')
    queue.addAfter('b', 5)
    clock.advance(5)
    take(queue)
    clock.advance(1_000)
    queue.done('a')
    const seen = {
      depth: meters.depth.calls,
      adds: meters.adds.calls,
      retries: meters.retries.calls,
      latency: meters.latency.seen,
      workDuration: meters.workDuration.seen,
    }
    const all = { depth: [1, 1, -1], adds: [1, 1], retries: [1], latency: [0.005], workDuration: [1] }
    for (const each of members)
      assert.deepEqual(seen[each], each === member ? all[each] : [], `${member}: ${each}`)
  }
})

test('M8: a plain queue without metrics shows its counts and no timings', () => {
  const clock = createFakeClock()
  const queue = new WorkQueue<string>({ name: 'pods', clock })
  queue.add('a')
  queue.add('b')
  queue.add('c')
  take(queue)
  queue.add('a')
  assert.deepEqual(queue.stats(), {
    name: 'pods',
    depth: 3,
    size: 2,
    processing: 1,
    waiting: 0,
    adds: 4,
    retries: 0,
  })
  assert.ok(!('unfinishedWorkSeconds' in queue.stats()))
})

test('M8: a queue without a name has the empty name', () => {
  assert.equal(new WorkQueue<string>().stats().name, '')
})

test('M8: a delaying queue without metrics counts waiting items and retries', () => {
  const queue = new DelayingQueue<string>({ name: 'slow', clock: createFakeClock() })
  queue.addAfter('a', 10)
  queue.addAfter('b', 20)
  queue.addAfter('a', 5)
  assert.deepEqual(queue.stats(), {
    name: 'slow',
    depth: 0,
    size: 0,
    processing: 0,
    waiting: 2,
    adds: 0,
    retries: 3,
  })
})

test('M8: with metrics, even an empty object, stats show the ages of items in flight', () => {
  const clock = createFakeClock()
  const queue = new WorkQueue<string>({ clock, metrics: {} })
  const ages = (): (number | undefined)[] => {
    const { unfinishedWorkSeconds, longestRunningProcessorSeconds } = queue.stats()
    return [unfinishedWorkSeconds, longestRunningProcessorSeconds]
  }
  assert.deepEqual(ages(), [0, 0])
  queue.add('a')
  clock.advance(9_000)
  assert.deepEqual(ages(), [0, 0], 'queued is not in flight')
  take(queue)
  clock.advance(1_000)
  queue.add('b')
  take(queue)
  clock.advance(2_000)
  assert.deepEqual(ages(), [5, 3])
  queue.done('a')
  assert.deepEqual(ages(), [2, 2])
  queue.add('b')
  clock.advance(1_000)
  assert.deepEqual(ages(), [3, 3], 're-adding does not make it younger')
  queue.done('b')
  assert.deepEqual(ages(), [0, 0])
})

test('M8: metrics arm no timer', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock, metrics: {} })
  queue.add('a')
  take(queue)
  assert.equal(clock.timerCount, 0)
})

test('M8: stats are a snapshot, not a window', () => {
  const queue = new WorkQueue<string>()
  const before = queue.stats()
  queue.add('a')
  assert.deepEqual([before.size, queue.stats().size], [0, 1])
})

test('M3: at rest depth is zero again, however the items ended', async () => {
  const { queue, clock, meters } = metered()
  for (const item of ['a', 'b', 'c']) queue.add(item)
  const iterator = queue[Symbol.asyncIterator]()
  await iterator.next()
  queue.add('a')
  queue.addAfter('d', 5)
  clock.advance(5)
  await iterator.return!()
  const ran = queue.run(() => {})
  const drained = queue.shutDownWithDrain()
  await drained
  await ran
  assert.equal(await isOpen(drained), false)
  assert.equal(meters.depth.value, 0)
  assert.equal(meters.latency.seen.length, meters.adds.value)
  assert.equal(meters.workDuration.seen.length, meters.adds.value)
})
