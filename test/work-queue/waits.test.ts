/**
 * Contract, the waits for a state:
 *  A1  onIdle: nothing queued, nothing in flight.
 *  A2  onSizeLessThan(limit): size below limit.
 *  A3  Both take a signal (SignalOptions): reject with its reason, and keep no listener.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue, WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, quiet, take, takeAll } from './probes.ts'

test('A1: an empty queue is idle', async () => {
  assert.equal(await new WorkQueue<string>().onIdle(), undefined)
})

test('A1: a queue is idle when nothing is queued and nothing in flight', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const idle = queue.onIdle()
  assert.equal(await isOpen(idle), true, 'queued')
  take(queue)
  assert.equal(await isOpen(idle), true, 'in flight')
  queue.done('a')
  await idle
})

test('A1: a re-added item keeps the queue from idling', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  const idle = queue.onIdle()
  queue.done('a')
  assert.equal(await isOpen(idle), true)
  takeAll(queue)
  await idle
})

test('A1: an item that is added and taken repeatedly keeps the queue from idling', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  const idle = queue.onIdle()
  const got = queue.get()
  queue.done('a')
  await got
  assert.equal(await isOpen(idle), true)
  queue.done('a')
  await idle
})

test('A1: waiting items do not keep a queue from idling', async () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 10)
  await queue.onIdle()
  clock.advance(10)
  assert.equal(await isOpen(queue.onIdle()), true)
})

test('A1: an add right after the last done does not revoke the idle answer', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  const idle = queue.onIdle()
  queue.done('a')
  queue.add('b')
  await idle
})

test('A1: any number of callers may wait, each for its own idle time', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const waits = [queue.onIdle(), queue.onIdle(), queue.onIdle()]
  takeAll(queue)
  await Promise.all(waits)
  queue.add('b')
  assert.equal(await isOpen(queue.onIdle()), true)
})

test('A1: disposing of the last Work makes the queue idle', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const work = take(queue)
  const idle = queue.onIdle()
  work[Symbol.dispose]()
  await idle
})

test('A1: shutDown does not make a queue idle: items in flight are waited for', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  const idle = queue.onIdle()
  queue.shutDown()
  assert.equal(await isOpen(idle), true)
  queue.done('a')
  await idle
})

test('A2: onSizeLessThan resolves at once when the size is below the limit', async () => {
  const queue = new WorkQueue<string>()
  assert.equal(await queue.onSizeLessThan(1), undefined)
  queue.add('a')
  await queue.onSizeLessThan(2)
  assert.equal(await isOpen(queue.onSizeLessThan(1)), true)
})

test('A2: onSizeLessThan waits until enough items were taken; items in flight do not count', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c']) queue.add(item)
  const three = queue.onSizeLessThan(3)
  const one = queue.onSizeLessThan(1)
  const two = queue.onSizeLessThan(2)
  assert.equal(await isOpen(three), true)
  take(queue)
  await three
  assert.equal(await isOpen(two), true)
  take(queue)
  await two
  assert.equal(await isOpen(one), true)
  take(queue)
  await one
})

test('A2: the size excludes re-added items in flight', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  await queue.onSizeLessThan(1)
  queue.done('a')
  assert.equal(await isOpen(queue.onSizeLessThan(1)), true)
})

test('A2: onSizeLessThan slows down a producer', async () => {
  const queue = new WorkQueue<number>()
  let most = 0
  const produce = async (): Promise<void> => {
    for (let i = 0; i < 50; i++) {
      await queue.onSizeLessThan(3)
      queue.add(i)
      most = Math.max(most, queue.size)
    }
    queue.shutDown()
  }
  const seen: number[] = []
  const consume = async (): Promise<void> => {
    for await (const item of queue) {
      await quiet()
      seen.push(item)
    }
  }
  await Promise.all([produce(), consume()])
  assert.equal(seen.length, 50)
  assert.ok(most <= 3)
})

test('A3: both waits reject with the reason of their signal and leave no listener', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const quit = new AbortController()
  const { signal } = quit
  const waits = [queue.onIdle({ signal }), queue.onSizeLessThan(1, { signal })]
  const others = [queue.onIdle(), queue.onSizeLessThan(1)]
  quit.abort('enough')
  for (const wait of waits) assert.equal(await wait.catch((reason) => reason), 'enough')
  assert.equal(getEventListeners(signal, 'abort').length, 0)
  assert.equal(queue.shuttingDown, false)
  for (const other of others) assert.equal(await isOpen(other), true)
  takeAll(queue)
  await Promise.all(others)
})

test('A3: a signal aborted before the call rejects at once', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const signal = AbortSignal.abort('no')
  assert.equal(await queue.onIdle({ signal }).catch((reason) => reason), 'no')
  assert.equal(await queue.onSizeLessThan(1, { signal }).catch((reason) => reason), 'no')
})

test('A3: both waits leave no listener when they resolve', async () => {
  const queue = new WorkQueue<string>()
  const { signal } = new AbortController()
  await queue.onIdle({ signal })
  await queue.onSizeLessThan(1, { signal })
  queue.add('a')
  const waits = [queue.onIdle({ signal }), queue.onSizeLessThan(1, { signal })]
  takeAll(queue)
  await Promise.all(waits)
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})
