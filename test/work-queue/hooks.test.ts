/** Foreign code in the middle of a step: metrics hooks, stores and key functions that call the queue, or throw. */
import assert from 'node:assert/strict'
import { createFakeClock } from 'signalbox/testing'
import {
  DelayingQueue,
  type Entry,
  FairQueue,
  FifoQueue,
  ItemExponentialFailureRateLimiter,
  type Queue,
  WorkQueue,
} from 'signalbox/workqueue'
import { test } from 'vitest'
import { takeAll } from './probes.ts'

test('a hook that shuts the queue down while a getter is served does not take its item', async () => {
  const queue = new WorkQueue<string>({ metrics: { latency: { observe: () => queue.shutDown() } } })
  const blocked = queue.get()
  queue.add('a')
  assert.equal((await blocked).item, 'a')
  assert.equal(queue.done('a'), true)
  await queue.shutDownWithDrain()
})

test('a hook that adds while getters are served serves each of them once', async () => {
  let added = false
  const queue = new WorkQueue<string>({
    metrics: {
      latency: {
        observe() {
          if (!added) queue.add('b')
          added = true
        },
      },
    },
  })
  const [first, second] = [queue.get(), queue.get()]
  queue.add('a')
  assert.deepEqual([(await first).item, (await second).item], ['a', 'b'])
  assert.deepEqual([queue.size, queue.processing], [0, 2])
})

test('a hook that aborts the getter that is being served comes too late', async () => {
  const aborting = new AbortController()
  const queue = new WorkQueue<string>({ metrics: { depth: { inc() {}, dec: () => aborting.abort() } } })
  const blocked = queue.get({ signal: aborting.signal })
  queue.add('a')
  assert.equal((await blocked).item, 'a')
  assert.equal(queue.processing, 1)
})

test('a hook that adds the item again at done gives it one more turn', () => {
  let left = 1
  const queue = new WorkQueue<string>({
    metrics: {
      workDuration: {
        observe() {
          if (left-- > 0) assert.equal(queue.add('a'), true)
        },
      },
    },
  })
  queue.add('a')
  for (let turn = 0; turn < 2; turn++) {
    assert.equal((queue.tryGet() as { item: string }).item, 'a')
    assert.equal(queue.done('a'), true)
  }
  assert.deepEqual([queue.size, queue.processing], [0, 0])
})

test('a group function that adds its own item makes no second copy', () => {
  const item = {}
  const queue: WorkQueue<object> = new WorkQueue({
    queue: new FairQueue((each: object) => {
      queue.add(each)
      return 'group'
    }),
  })
  queue.add(item)
  assert.equal(queue.size, 1)
  assert.equal(queue.tryGet()?.item, item)
  assert.equal(queue.tryGet(), undefined)
})

/** A store in which one part throws as long as the test wants. */
class Failing<T> extends FifoQueue<T> implements Queue<T> {
  failing: 'push' | 'pop' | undefined

  override push(entry: Parameters<FifoQueue<T>['push']>[0]): void {
    if (this.failing === 'push') throw new Error('the store is full')
    super.push(entry)
  }

  override pop(): ReturnType<FifoQueue<T>['pop']> {
    if (this.failing === 'pop') throw new Error('the store is stuck')
    return super.pop()
  }
}

test('when a store throws on a take, get and run reject, and the item is there afterwards', async () => {
  const store = new Failing<string>()
  const queue = new WorkQueue<string>({ queue: store })
  queue.add('a')
  store.failing = 'pop'
  await assert.rejects(queue.get(), /stuck/)
  await assert.rejects(
    queue.run(() => assert.fail('it was taken')),
    /stuck/,
  )
  store.failing = undefined
  assert.equal((await queue.get()).item, 'a')
})

test('a store that throws while a run waits ends the run with its error', async () => {
  const store = new Failing<string>()
  const queue = new WorkQueue<string>({ queue: store })
  const handled: string[] = []
  const running = queue.run((item) => {
    handled.push(item)
    store.failing = 'pop'
    queue.add('b')
  })
  queue.add('a')
  await assert.rejects(running, /stuck/)
  assert.deepEqual(handled, ['a'])
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('a store that refuses a re-added item leaves it in flight, and done may be called once more', () => {
  const store = new Failing<string>()
  const queue = new WorkQueue<string>({ queue: store })
  queue.add('a')
  queue.tryGet()
  queue.add('a', { priority: 2 })
  store.failing = 'push'
  assert.throws(() => queue.done('a'), /full/)
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth], [0, 1, 1])
  store.failing = undefined
  assert.equal(queue.done('a'), true)
  assert.deepEqual([queue.size, queue.processing], [1, 0])
  assert.equal((queue.tryGet() as { priority: number }).priority, 2)
})

test('a store that ends other turns before it refuses an item still leaves it in flight', () => {
  let refuse = (): void => {}
  class Refusing extends FifoQueue<object> {
    override push(entry: Entry<object>): void {
      refuse()
      super.push(entry)
    }
  }
  const queue = new WorkQueue<object>({ queue: new Refusing() })
  const others = Array.from({ length: 200 }, (_, at) => ({ at }))
  const item = { at: 'the end' }
  for (const each of [...others, item]) queue.add(each)
  while (queue.size > 0) queue.tryGet()
  queue.add(item)
  // The store refuses while many others leave.
  refuse = () => {
    for (const other of others) queue.done(other)
    throw new Error('the store is full')
  }
  assert.throws(() => queue.done(item), /full/)
  refuse = () => {}
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth], [0, 1, 1])
  assert.equal(queue.done(item), true)
  assert.deepEqual(takeAll(queue), [item])
})

/** Ten times what an operation is to cost, and a small part of what it costs without the rebuilding. */
const mostNsAnOperation = 30_000

test('busy objects among a million others are not slowed down by their own leftovers', {
  timeout: 60_000,
}, () => {
  const queue = new WorkQueue<object>()
  for (let count = 0; count < 1_000_000; count++) queue.add({})
  const busy = Array.from({ length: 100 }, () => ({}))
  assert.ok(nsPerOperation(busy, (item) => cycle(queue, item)) < mostNsAnOperation)
})

test('queued items do not slow down an item that waits now and then', () => {
  const queue = new DelayingQueue<number>({ clock: createFakeClock() })
  for (let id = 0; id < 200_000; id++) queue.add(id)
  const rounds = 200
  const startedAt = performance.now()
  for (let round = 0; round < rounds; round++) {
    assert.equal(queue.addAfter(-1, 5), true)
    assert.equal(queue.cancelAfter(-1), true)
  }
  assert.ok((performance.now() - startedAt) / rounds < 4)
})

function cycle(queue: WorkQueue<object>, item: object): void {
  queue.add(item, { priority: 1 })
  assert.equal(queue.tryGet()?.item, item)
  queue.done(item)
}

test('items that fail and are forgotten stay fast among a million failed items', {
  timeout: 60_000,
}, () => {
  const limiter = new ItemExponentialFailureRateLimiter<string>(1, 1_000)
  for (let count = 0; count < 1_000_000; count++) limiter.when(`other-${count}`)
  const busy = Array.from({ length: 100 }, (_, at) => `busy-${at}`)
  const ns = nsPerOperation(busy, (item) => {
    assert.equal(limiter.when(item), 1)
    limiter.forget(item)
  })
  assert.ok(ns < mostNsAnOperation)
})

/** In processor time of this thread, so that nothing which runs beside it counts. */
function nsPerOperation<T>(busy: readonly T[], operation: (item: T) => void): number {
  const rounds = 4_000
  const before = process.threadCpuUsage()
  for (let round = 0; round < rounds; round++) for (const item of busy) operation(item)
  const { user, system } = process.threadCpuUsage(before)
  return ((user + system) * 1_000) / (rounds * busy.length)
}
