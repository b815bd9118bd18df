/**
 * Contract, "Pending and in flight":
 *  P1  Identity is `key(item)`; default: the item itself (SameValueZero).
 *  P2  An item is pending at most once and in flight at most once.
 *  P3  `add` of a queued item changes nothing but its payload (the newest object, in the oldest's place)
 *  P4  … and its priority (the highest wins; a raised item goes to the end of its new level);
 *  P5  the store hears of it through `touch` (entry, previousPriority).
 *  P6  `add` of an item in flight makes it pending again; it enters the store when `done` is called, behind
 *      what is there, and `touch` is not called.
 *  P7  `size` leaves such items out, `stats().depth` counts them.
 *  P8  add: false: already pending, or shut down.
 */
import assert from 'node:assert/strict'
import { WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { TapeStore, take, takeAll } from './probes.ts'

interface Pod {
  readonly name: string
  readonly version: number
}
const byName = (pod: Pod): string => pod.name

test('P2, P8: the first add is accepted, a repeated one is not, and there is one run', () => {
  const queue = new WorkQueue<string>()
  assert.equal(queue.add('a'), true)
  assert.equal(queue.add('a'), false)
  assert.equal(queue.add('a'), false)
  assert.equal(queue.size, 1)
  assert.deepEqual(takeAll(queue), ['a'])
  assert.equal(queue.tryGet(), undefined)
})

test('items come out first in, first out, and adding again does not move one', () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c', 'a', 'b']) queue.add(item)
  assert.deepEqual(takeAll(queue), ['a', 'b', 'c'])
})

test('P1: without a key function items are compared by SameValueZero', () => {
  const queue = new WorkQueue<unknown>()
  assert.equal(queue.add(Number.NaN), true)
  assert.equal(queue.add(Number.NaN), false)
  assert.equal(queue.add(0), true)
  assert.equal(queue.add(-0), false)
  assert.equal(queue.add('0'), true)
  assert.equal(queue.add(0n), true)
  const one = {}
  assert.equal(queue.add(one), true)
  assert.equal(queue.add(one), false)
  assert.equal(queue.add({}), true)
  assert.equal(queue.size, 6)
})

test('P1: undefined, null, empty string and false are items like any other', async () => {
  const queue = new WorkQueue<unknown>()
  for (const item of [undefined, null, '', false]) assert.equal(queue.add(item), true)
  for (const item of [undefined, null, '', false]) assert.equal(queue.add(item), false)
  for (const item of [undefined, null, '', false]) {
    const work = await queue.get()
    assert.equal(work.shutdown, false)
    assert.equal(work.item, item)
    assert.equal(queue.add(item), true)
    assert.equal(queue.done(item), true)
  }
  assert.equal(queue.size, 4)
})

test('P1: a key function may answer undefined or objects; its answer alone is the identity', () => {
  const same = new WorkQueue<number>({ key: () => undefined })
  assert.equal(same.add(1), true)
  assert.equal(same.add(2), false)
  assert.equal(take(same).item, 2)
  assert.equal(same.done(99), true)

  const odd = {}
  const even = {}
  const parity = new WorkQueue<number>({ key: (n) => (n % 2 ? odd : even) })
  assert.equal(parity.add(1), true)
  assert.equal(parity.add(2), true)
  assert.equal(parity.add(3), false)
  assert.deepEqual(takeAll(parity), [3, 2])
})

test('P3: a repeated add hands out the newest payload, at the position of the first', () => {
  const queue = new WorkQueue<Pod>({ key: byName })
  const newest = { name: 'web', version: 3 }
  queue.add({ name: 'web', version: 1 })
  queue.add({ name: 'db', version: 1 })
  queue.add({ name: 'web', version: 2 })
  queue.add(newest)
  assert.equal(take(queue).item, newest)
  assert.equal(take(queue).item.name, 'db')
})

test('P3: a lower or equal priority renews the payload, but neither position nor priority', () => {
  const queue = new WorkQueue<Pod>({ key: byName })
  queue.add({ name: 'web', version: 1 }, { priority: 5 })
  queue.add({ name: 'db', version: 1 }, { priority: 5 })
  assert.equal(queue.add({ name: 'web', version: 2 }, { priority: 5 }), false)
  assert.equal(queue.add({ name: 'web', version: 3 }, { priority: -1 }), false)
  assert.equal(queue.add({ name: 'web', version: 4 }), false)
  const first = take(queue)
  assert.deepEqual([first.item, first.priority], [{ name: 'web', version: 4 }, 5])
  assert.equal(take(queue).item.name, 'db')
})

test('P4: a raised item goes to the end of its new level', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  queue.add('x', { priority: 2 })
  queue.add('y', { priority: 2 })
  assert.equal(queue.add('a', { priority: 2 }), false)
  queue.add('z', { priority: 2 })
  const order = [0, 1, 2, 3, 4].map(() => take(queue)).map(({ item, priority }) => `${item}${priority}`)
  assert.deepEqual(order, ['x2', 'y2', 'a2', 'z2', 'b0'])
})

test('higher priorities come first, the default is 0, and Work has the priority', () => {
  const queue = new WorkQueue<string>()
  queue.add('low', { priority: -1 })
  queue.add('default')
  queue.add('half', { priority: 0.5 })
  queue.add('top', { priority: Number.POSITIVE_INFINITY })
  queue.add('high', { priority: 10 })
  const order: [string, number][] = []
  for (let i = 0; i < 5; i++) {
    const { item, priority } = take(queue)
    order.push([item, priority])
  }
  assert.deepEqual(order, [
    ['top', Number.POSITIVE_INFINITY],
    ['high', 10],
    ['half', 0.5],
    ['default', 0],
    ['low', -1],
  ])
})

test('P5: the store gets every repeated add, with the renewed entry and its former priority', () => {
  const tape = new TapeStore<Pod>()
  const queue = new WorkQueue<Pod>({ key: byName, queue: tape })
  queue.add({ name: 'web', version: 1 }, { priority: 1 })
  queue.add({ name: 'web', version: 2 }, { priority: 4 })
  queue.add({ name: 'web', version: 3 }, { priority: 4 })
  queue.add({ name: 'web', version: 4 }, { priority: 2 })
  const reported = tape.calls.map(({ call, item, priority, previousPriority }) => [
    call,
    item.version,
    priority,
    previousPriority,
  ])
  assert.deepEqual(reported, [
    ['push', 1, 1, undefined],
    ['touch', 2, 4, 1],
    ['touch', 3, 4, 4],
    ['touch', 4, 4, 4],
  ])
})

test('an entry is one object per pending add: pushed, touched and popped as the same object', () => {
  const tape = new TapeStore<string>()
  const queue = new WorkQueue<string>({ queue: tape })
  queue.add('a')
  queue.add('b')
  queue.add('a', { priority: 3 })
  take(queue)
  const [pushA, pushB, touchA, popA] = tape.calls.map(({ entry }) => entry)
  assert.notEqual(pushA, pushB)
  assert.equal(touchA, pushA)
  assert.equal(popA, pushA)
})

test('P6: an item added while in flight enters the store at done, behind the present items', () => {
  const tape = new TapeStore<string>()
  const queue = new WorkQueue<string>({ queue: tape })
  queue.add('a')
  take(queue)
  assert.equal(queue.add('a'), true)
  assert.equal(queue.add('a'), false)
  queue.add('b')
  assert.deepEqual(tape.names, ['push', 'pop', 'push'], 'the item in flight is not in the store')
  assert.equal(queue.tryGet()?.item, 'b')
  queue.add('c')
  assert.equal(queue.tryGet()?.item, 'c')
  assert.equal(queue.tryGet(), undefined, 'an item in flight is not handed out again')
  queue.add('d')
  assert.equal(queue.done('a'), true)
  assert.deepEqual(
    tape.calls.slice(-2).map(({ item }) => item),
    ['d', 'a'],
  )
  assert.deepEqual(takeAll(queue), ['d', 'a'])
})

test('P6: touch is not called for adds of an item in flight', () => {
  const tape = new TapeStore<string>()
  const queue = new WorkQueue<string>({ queue: tape })
  queue.add('a')
  take(queue)
  queue.add('a')
  queue.add('a', { priority: 9 })
  queue.add('a')
  assert.ok(!tape.names.includes('touch'))
  queue.done('a')
  assert.deepEqual(tape.names, ['push', 'pop', 'push'])
  queue.add('a')
  assert.deepEqual(tape.names, ['push', 'pop', 'push', 'touch'], 'once in the store it is touched again')
})

test('P4, P6: adds of an item in flight join: highest priority, newest payload, then by that priority', () => {
  const queue = new WorkQueue<Pod>({ key: byName })
  queue.add({ name: 'web', version: 1 }, { priority: 7 })
  const first = take(queue)
  queue.add({ name: 'other', version: 1 }, { priority: 2 })
  queue.add({ name: 'web', version: 2 }, { priority: 1 })
  queue.add({ name: 'web', version: 3 }, { priority: 3 })
  queue.add({ name: 'web', version: 4 }, { priority: 2 })
  assert.equal(first.item.version, 1, 'what was handed out stays as it was')
  assert.equal(first.priority, 7)
  queue.done({ name: 'web', version: 0 })
  const second = take(queue)
  assert.deepEqual([second.item, second.priority], [{ name: 'web', version: 4 }, 3])
  assert.equal(take(queue).item.name, 'other')
})

test('a re-added item has the priority of its new adds, not that of the earlier turn', () => {
  const queue = new WorkQueue<string>()
  queue.add('a', { priority: 9 })
  take(queue)
  queue.add('a')
  queue.done('a')
  assert.equal(take(queue).priority, 0)
  queue.done('a')
  queue.add('a', { priority: -3 })
  assert.equal(take(queue).priority, -3)
})

test('P7: size excludes re-added items in flight, depth counts them', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  take(queue)
  queue.add('a')
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth, queue.stats().size], [1, 1, 2, 1])
  queue.done('a')
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth, queue.stats().size], [2, 0, 2, 2])
})

test('P2: many adds while in flight give exactly one more run', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  for (let i = 0; i < 50; i++) queue.add('a')
  queue.done('a')
  assert.deepEqual(takeAll(queue), ['a'])
  assert.equal(queue.size, 0)
})

test('waiting is always 0 on a plain queue', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  assert.equal(queue.waiting, 0)
  assert.equal(queue.stats().waiting, 0)
})

test('an error of the key function in add or done reaches the caller, and the queue is unchanged', () => {
  let broken = false
  const queue = new WorkQueue<string>({
    key: (item) => {
      if (broken) throw new TypeError('no key')
      return item
    },
  })
  queue.add('a')
  queue.add('b')
  take(queue)
  const before = queue.stats()
  broken = true
  assert.throws(() => queue.add('c'), /no key/)
  assert.throws(() => queue.done('a'), /no key/)
  broken = false
  assert.deepEqual(queue.stats(), before)
  assert.equal(queue.done('a'), true)
  assert.deepEqual(takeAll(queue), ['b'])
})

test('an error of the store in push reaches the caller of add, and the item can be added again', () => {
  let broken = true
  class Brittle extends TapeStore<string> {
    override push(entry: { readonly item: string; readonly priority: number }): void {
      if (broken) throw new TypeError('no room')
      super.push(entry)
    }
  }
  const queue = new WorkQueue<string>({ queue: new Brittle() })
  assert.throws(() => queue.add('a'), /no room/)
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth, queue.stats().adds], [0, 0, 0, 0])
  broken = false
  assert.equal(queue.add('a'), true)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('size and repeated adds stay cheap in a store with many items', () => {
  const queue = new WorkQueue<number>()
  for (let i = 0; i < 200_000; i++) queue.add(i)
  const start = performance.now()
  for (let i = 0; i < 200_000; i++) queue.add(i)
  let sum = 0
  for (let i = 0; i < 200_000; i++) sum += queue.size
  assert.equal(sum, 200_000 * 200_000)
  for (let i = 0; i < 200_000; i++) {
    assert.equal(take(queue).item, i)
    queue.done(i)
  }
  // A linear scan or `shift()` on each step would need minutes (async#756).
  assert.ok(performance.now() - start < 10_000)
})
