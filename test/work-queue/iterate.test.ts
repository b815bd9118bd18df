/**
 * Contract, async iteration:
 *  I1  [Symbol.asyncIterator](): done() is called for you, also on break and throw.
 *  I2  Leaving an iteration ends that turn only.
 */
import assert from 'node:assert/strict'
import { WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, quiet, take, takeAll } from './probes.ts'

function filled(...items: string[]): WorkQueue<string> {
  const queue = new WorkQueue<string>()
  for (const item of items) queue.add(item)
  return queue
}

test('I1: an iteration hands out the items one by one, each done before the next', async () => {
  const queue = filled('a', 'b', 'c')
  queue.shutDown()
  const seen: string[] = []
  for await (const item of queue) {
    seen.push(item)
    assert.equal(queue.processing, 1)
  }
  assert.deepEqual(seen, ['a', 'b', 'c'])
  assert.equal(queue.processing, 0)
})

test('an iteration waits for items and ends with the queue', async () => {
  const queue = new WorkQueue<string>()
  const seen: string[] = []
  const ended = (async () => {
    for await (const item of queue) seen.push(item)
  })()
  await quiet()
  queue.add('a')
  await quiet()
  assert.deepEqual([seen, queue.processing], [['a'], 0], 'a is done as soon as the next is asked for')
  queue.add('b')
  queue.shutDown()
  await ended
  assert.deepEqual(seen, ['a', 'b'])
})

test('I1: an item re-added in the body has one more run', async () => {
  const queue = filled('a', 'b')
  const seen: string[] = []
  for await (const item of queue) {
    seen.push(item)
    if (seen.length === 1) queue.add(item)
    if (seen.length === 3) queue.shutDown()
  }
  assert.deepEqual(seen, ['a', 'b', 'a'])
})

test('I1: break ends the turn and leaves the rest', async () => {
  const queue = filled('a', 'b')
  for await (const item of queue) {
    assert.equal(item, 'a')
    break
  }
  assert.deepEqual([queue.processing, queue.size, queue.shuttingDown], [0, 1, false])
  assert.deepEqual(takeAll(queue), ['b'])
})

test('I1: a throw in the body ends the turn and reaches the caller', async () => {
  const queue = filled('a', 'b')
  const loop = async (): Promise<void> => {
    for await (const item of queue) throw new Error(`at ${item}`)
  }
  await assert.rejects(loop, /at a/)
  assert.deepEqual([queue.processing, queue.size], [0, 1])
})

test('I1: return on the iterator ends the turn; the iterator is finished, the queue is not', async () => {
  const queue = filled('a', 'b')
  const iterator = queue[Symbol.asyncIterator]()
  assert.deepEqual(await iterator.next(), { value: 'a', done: false })
  assert.equal(queue.processing, 1)
  assert.equal((await iterator.return!()).done, true)
  assert.equal(queue.processing, 0)
  assert.equal((await iterator.next()).done, true)
  assert.deepEqual([queue.size, queue.processing], [1, 0], 'a finished iterator takes nothing')
  assert.equal((await iterator.return!()).done, true)
})

test('I1: throw on the iterator, where there is one, ends the turn and rejects', async () => {
  const queue = filled('a', 'b')
  const iterator = queue[Symbol.asyncIterator]()
  await iterator.next()
  if (iterator.throw) await assert.rejects(iterator.throw(new Error('out')), /out/)
  else await iterator.return!()
  assert.equal(queue.processing, 0)
  assert.equal((await iterator.next()).done, true)
  assert.equal(queue.size, 1)
})

test('return before the first next finishes the iterator and takes nothing', async () => {
  const queue = filled('a')
  const iterator = queue[Symbol.asyncIterator]()
  assert.equal((await iterator.return!()).done, true)
  assert.equal((await iterator.next()).done, true)
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('an iterator that was only made takes nothing', async () => {
  const queue = filled('a')
  const iterator = queue[Symbol.asyncIterator]()
  await quiet()
  assert.deepEqual([queue.size, queue.processing], [1, 0])
  assert.equal(iterator[Symbol.asyncIterator](), iterator)
})

test('after the end of the queue the iterator always returns done', async () => {
  const queue = filled('a')
  queue.shutDown()
  const iterator = queue[Symbol.asyncIterator]()
  await iterator.next()
  for (let i = 0; i < 3; i++) assert.deepEqual(await iterator.next(), { value: undefined, done: true })
  assert.equal(queue.processing, 0)
})

test('an item re-added in the body at shutDown has its second run in the same iteration', async () => {
  const queue = filled('a')
  const idle = queue[Symbol.asyncIterator]()
  const seen: string[] = []
  let other: Promise<IteratorResult<string>> | undefined
  for await (const item of queue) {
    seen.push(item)
    if (seen.length > 1) continue
    other = idle.next()
    queue.add(item)
    queue.shutDown()
  }
  assert.deepEqual(seen, ['a', 'a'])
  assert.equal((await other!).done, true, 'the other was let go of')
  assert.deepEqual([queue.size, queue.processing], [0, 0])
})

test('I2: next after done does not end the turn of a later consumer', async () => {
  const queue = filled('a')
  const iterator = queue[Symbol.asyncIterator]()
  await iterator.next()
  queue.done('a')
  queue.add('a')
  assert.equal(take(queue).item, 'a')
  const blocked = iterator.next()
  assert.equal(await isOpen(blocked), true)
  assert.equal(queue.processing, 1)
  queue.add('a')
  await quiet()
  assert.equal(queue.size, 0, 'the other still has it')
  queue.done('a')
  assert.deepEqual(await blocked, { value: 'a', done: false })
})

test('I2: break after done does not end the turn of a later consumer', async () => {
  const queue = filled('a')
  for await (const item of queue) {
    queue.done(item)
    queue.add(item)
    take(queue)
    break
  }
  assert.equal(queue.processing, 1)
})

test('two iterations at once share the items, and no item is in both', async () => {
  const queue = filled('a', 'b', 'c', 'd', 'e', 'f')
  queue.shutDown()
  const inFlight = new Set<string>()
  const consume = async (): Promise<string[]> => {
    const seen: string[] = []
    for await (const item of queue) {
      assert.ok(!inFlight.has(item))
      inFlight.add(item)
      await quiet()
      inFlight.delete(item)
      seen.push(item)
    }
    return seen
  }
  const [one, two] = await Promise.all([consume(), consume()])
  assert.deepEqual([...one, ...two].sort(), ['a', 'b', 'c', 'd', 'e', 'f'])
  assert.ok(one.length > 0 && two.length > 0)
  assert.equal(queue.processing, 0)
})

test('two blocked iterators get items in the order they came; ending one leaves the other', async () => {
  const queue = new WorkQueue<string>()
  const one = queue[Symbol.asyncIterator]()
  const two = queue[Symbol.asyncIterator]()
  const first = one.next()
  const second = two.next()
  queue.add('a')
  queue.add('b')
  assert.deepEqual([(await first).value, (await second).value], ['a', 'b'])
  await one.return!()
  assert.equal(queue.processing, 1)
  await two.return!()
  assert.equal(queue.processing, 0)
})

test('shutDown ends an iteration that is blocked', async () => {
  const queue = new WorkQueue<string>()
  const next = queue[Symbol.asyncIterator]().next()
  assert.equal(await isOpen(next), true)
  queue.shutDown()
  assert.equal((await next).done, true)
})

test('return ends a blocked next; an item added later stays in the queue', async () => {
  const queue = new WorkQueue<string>()
  const iterator = queue[Symbol.asyncIterator]()
  const next = iterator.next()
  assert.equal(await isOpen(next), true)
  const left = iterator.return!()
  queue.add('a')
  assert.equal((await next).done, true)
  assert.equal((await left).done, true)
  assert.deepEqual([queue.size, queue.processing, queue.shuttingDown], [1, 0, false])
})
