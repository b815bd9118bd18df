/**
 * Contract, "done":
 *  D1  done acts on items in flight only; anything else is ignored and answers false.
 *  D2  Disposing of a `Work` and leaving an iteration end that turn only: if `done(item)` was called and
 *      someone else has the item since, their turn goes on.
 *  D3  Work: dispose = done for this turn only, idempotent.
 */
import assert from 'node:assert/strict'
import { WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, take, takeAll, workOf } from './probes.ts'

test('D1: done of an item in flight answers true and ends its turn', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  assert.equal(queue.processing, 1)
  assert.equal(queue.done('a'), true)
  assert.equal(queue.processing, 0)
  assert.equal(queue.size, 0)
})

test('D1: done of a queued, an unknown or an already done item answers false and changes nothing', () => {
  const queue = new WorkQueue<string>()
  assert.equal(queue.done('never'), false)
  queue.add('a')
  assert.equal(queue.done('a'), false)
  assert.equal(queue.size, 1)
  take(queue)
  assert.equal(queue.done('b'), false)
  assert.equal(queue.processing, 1)
  assert.equal(queue.done('a'), true)
  const before = queue.stats()
  assert.equal(queue.done('a'), false)
  assert.deepEqual(queue.stats(), before)
})

test('D1: a second done of a re-added item does not queue a second copy', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  assert.equal(queue.done('a'), true)
  assert.equal(queue.done('a'), false)
  assert.deepEqual(takeAll(queue), ['a'])
  assert.equal(queue.tryGet(), undefined)
})

test('D1: done uses the key, so any payload of the item works', () => {
  const queue = new WorkQueue<{ id: number; text: string }>({ key: ({ id }) => id })
  queue.add({ id: 1, text: 'old' })
  take(queue)
  assert.equal(queue.done({ id: 2, text: 'old' }), false)
  assert.equal(queue.done({ id: 1, text: 'other' }), true)
})

test('D1: done uses the key that an item has now, also for the item that was taken last', () => {
  const queue = new WorkQueue<{ id: number }>({ key: ({ id }) => id })
  const item = { id: 1 }
  queue.add(item)
  take(queue)
  item.id = 2
  assert.equal(queue.done(item), false)
  assert.equal(queue.processing, 1)
  assert.equal(queue.done({ id: 1 }), true)
})

test('D1: undefined is an item like any other, in flight until it is done', () => {
  const queue = new WorkQueue<string | undefined>()
  queue.add(undefined)
  queue.add('a')
  assert.equal(queue.done(undefined), false)
  for (let left = 2; left > 0; left--) queue.tryGet()
  assert.deepEqual([queue.done('a'), queue.done(undefined), queue.done(undefined)], [true, true, false])
})

test('D3: disposing of a Work calls done: a re-added item enters the queue', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const work = take(queue)
  queue.add('a')
  work[Symbol.dispose]()
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('D3: using ends the turn at the end of the block, also when the block throws', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  {
    using work = await workOf(queue.get())
    assert.equal(work.item, 'a')
    assert.equal(queue.processing, 1)
  }
  assert.equal(queue.processing, 0)
  queue.add('b')
  const throwing = async (): Promise<void> => {
    using work = await queue.get()
    throw new Error(`lost ${work.item}`)
  }
  await assert.rejects(throwing, /lost b/)
  assert.equal(queue.processing, 0)
})

test('D3: disposing twice has the effect of once, even when the item is in flight again', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const first = take(queue)
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  assert.equal(queue.processing, 0)
  queue.add('a')
  const second = take(queue)
  first[Symbol.dispose]()
  assert.equal(queue.processing, 1, 'the second turn goes on')
  second[Symbol.dispose]()
  assert.equal(queue.processing, 0)
})

test('D2: disposing after done does not end the turn of a later consumer', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const mine = take(queue)
  queue.add('a')
  queue.done('a')
  const theirs = take(queue)
  queue.add('a')
  mine[Symbol.dispose]()
  assert.deepEqual([queue.size, queue.processing], [0, 1])
  assert.equal(theirs.item, 'a')
  theirs[Symbol.dispose]()
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('D2: disposing after done does not remove an item that is only queued', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const work = take(queue)
  queue.add('a')
  queue.done('a')
  work[Symbol.dispose]()
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth], [1, 0, 1])
})

test('D2: a turn that done gave to a blocked getter is not ended by the earlier Work', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const mine = take(queue)
  queue.add('a')
  const got = queue.get()
  queue.done('a')
  mine[Symbol.dispose]()
  assert.equal(queue.processing, 1)
  assert.equal((await got).item, 'a')
})

test('disposing of a NoWork does nothing', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.shutDown()
  const none = await queue.get()
  assert.equal(none.shutdown, true)
  none[Symbol.dispose]()
  none[Symbol.dispose]()
  assert.equal(queue.processing, 1)
})

test('disposing of a Work frees a waiting drain', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const work = take(queue)
  const drained = queue.shutDownWithDrain()
  assert.equal(await isOpen(drained), true)
  work[Symbol.dispose]()
  await drained
})
