/**
 * Contract, "shutDown":
 *  S1  shutDown refuses further adds (also those of items in flight),
 *  S2  drops waiting items, clears the timer,
 *  S3  releases every blocked getter,
 *  S4  and ends the wait of any drain, however often it is called.
 *  S5  Queued items are still handed out; then `get` answers { shutdown: true } for ever.
 *  S6  shutDownWithDrain does the same but for drains, and resolves when nothing is queued or in flight,
 *      re-added items included;
 *  S7  any number of callers may wait;
 *  S8  an abort of its signal rejects, the queue stays shut down.
 *  S9  [Symbol.dispose] is shutDown, [Symbol.asyncDispose] is shutDownWithDrain.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { createFakeClock } from 'signalbox/testing'
import { DelayingQueue, RateLimitingQueue, WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, TapeStore, take, takeAll } from './probes.ts'

test('S1: after shutDown an add is refused and changes nothing', () => {
  const queue = new WorkQueue<string>()
  assert.equal(queue.shuttingDown, false)
  queue.shutDown()
  assert.equal(queue.shuttingDown, true)
  assert.equal(queue.add('a'), false)
  assert.deepEqual([queue.size, queue.processing, queue.stats().adds, queue.stats().depth], [0, 0, 0, 0])
})

test('S1: an add of an item in flight is refused too: done does not queue it', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.shutDown()
  assert.equal(queue.add('a'), false)
  assert.equal(queue.stats().depth, 0)
  queue.done('a')
  assert.deepEqual([queue.size, queue.processing], [0, 0])
})

test('S1: a refused add renews neither payload nor priority of a queued item', () => {
  const tape = new TapeStore<{ id: string; version: number }>()
  const queue = new WorkQueue({ key: ({ id }: { id: string; version: number }) => id, queue: tape })
  queue.add({ id: 'a', version: 1 })
  queue.shutDown()
  assert.equal(queue.add({ id: 'a', version: 2 }, { priority: 5 }), false)
  assert.deepEqual(tape.names, ['push'])
  const work = take(queue)
  assert.deepEqual([work.item.version, work.priority], [1, 0])
})

test('S1, S6: an item re-added before shutDown still has its second run', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  queue.shutDown()
  assert.equal(queue.tryGet()?.shutdown, true, 'nothing is in the store at the moment')
  queue.done('a')
  assert.equal(queue.size, 1)
  assert.equal(take(queue).item, 'a')
})

test('S2: shutDown drops waiting items and clears the timer', () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 5)
  queue.addAfter('b', 50_000)
  assert.equal(clock.timerCount, 1)
  queue.shutDown()
  assert.deepEqual([queue.waiting, queue.stats().waiting, clock.timerCount], [0, 0, 0])
  assert.equal(queue.readyAt('a'), undefined)
  assert.equal(queue.cancelAfter('a'), false)
  clock.advance(100_000)
  assert.equal(queue.size, 0)
})

test('S2: a drain drops waiting items and clears the timer too', async () => {
  const clock = createFakeClock()
  const queue = new DelayingQueue<string>({ clock })
  queue.addAfter('a', 5)
  await queue.shutDownWithDrain()
  assert.deepEqual([queue.waiting, clock.timerCount, queue.shuttingDown], [0, 0, true])
  clock.advance(100)
  assert.equal(queue.size, 0)
})

test('S1: delayed and rate limited adds are refused after shutDown and arm no timer', () => {
  const clock = createFakeClock()
  const queue = new RateLimitingQueue<string>({ clock })
  queue.add('queued')
  queue.shutDown()
  assert.equal(queue.addAfter('a', 5), false)
  assert.equal(queue.addAfter('a', 0), false)
  assert.equal(queue.addAfter('a', Number.POSITIVE_INFINITY), false)
  assert.equal(queue.addRateLimited('a'), false)
  assert.deepEqual([queue.waiting, queue.size, clock.timerCount, queue.stats().retries], [0, 1, 0, 0])
})

test('S3: shutDown releases every blocked getter', async () => {
  const queue = new WorkQueue<string>()
  const gets = [queue.get(), queue.get(), queue.get({ signal: new AbortController().signal })]
  queue.shutDown()
  for (const none of await Promise.all(gets)) {
    assert.equal(none.shutdown, true)
    assert.equal(none.item, undefined)
  }
})

test('S3: a drain releases every blocked getter too', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  const got = queue.get()
  const drained = queue.shutDownWithDrain()
  assert.equal((await got).shutdown, true)
  assert.equal(await isOpen(drained), true)
  queue.done('a')
  await drained
})

test('S5: queued items are still handed out, then get and tryGet always return shutdown', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  queue.shutDown()
  assert.equal((await queue.get()).item, 'a')
  assert.equal(take(queue).item, 'b')
  for (let i = 0; i < 3; i++) {
    assert.equal((await queue.get()).shutdown, true)
    assert.equal(queue.tryGet()?.shutdown, true)
    queue.done('a')
    queue.done('b')
  }
})

test('S5: the client-go loop ends on its own', async () => {
  const queue = new WorkQueue<string>()
  const seen: string[] = []
  const loop = async (): Promise<void> => {
    for (;;) {
      const { item, shutdown } = await queue.get()
      if (shutdown) return
      seen.push(item)
      queue.done(item)
    }
  }
  const ended = loop()
  queue.add('a')
  queue.add('b')
  queue.shutDown()
  await ended
  assert.deepEqual(seen, ['a', 'b'])
})

test('S4: shutDown may be called any number of times', () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  for (let i = 0; i < 3; i++) queue.shutDown()
  assert.deepEqual(takeAll(queue), ['a'])
})

test('S4: shutDown ends the wait of every drain, with items still queued and in flight', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  take(queue)
  const drains = [queue.shutDownWithDrain(), queue.shutDownWithDrain()]
  for (const drained of drains) assert.equal(await isOpen(drained), true)
  queue.shutDown()
  assert.deepEqual(await Promise.all(drains), [undefined, undefined])
  assert.deepEqual([queue.size, queue.processing], [1, 1])
})

test('S4: shutDown, drain, shutDown, drain, shutDown: each one ends the drains before it', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  for (let i = 0; i < 3; i++) {
    queue.shutDown()
    const drained = queue.shutDownWithDrain()
    assert.equal(await isOpen(drained), true)
    queue.shutDown()
    await drained
  }
})

test('S6: a drain does not end the wait of another drain', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const first = queue.shutDownWithDrain()
  const second = queue.shutDownWithDrain()
  assert.equal(await isOpen(first), true)
  assert.equal(await isOpen(second), true)
  takeAll(queue)
  await Promise.all([first, second])
})

test('S6: a drain of an idle queue resolves at once, any number of times', async () => {
  const queue = new WorkQueue<string>()
  assert.equal(await queue.shutDownWithDrain(), undefined)
  assert.equal(queue.shuttingDown, true)
  assert.equal(queue.add('a'), false)
  await queue.shutDownWithDrain()
  queue.shutDown()
  await queue.shutDownWithDrain()
})

test('S6: a drain waits for queued items, not only for items in flight', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  const drained = queue.shutDownWithDrain()
  assert.equal(queue.shuttingDown, true, 'from the moment of the call')
  assert.equal(await isOpen(drained), true)
  take(queue)
  queue.done('a')
  assert.equal(await isOpen(drained), true, 'b is queued')
  take(queue)
  assert.equal(await isOpen(drained), true, 'b is in flight')
  queue.done('b')
  await drained
})

test('S6: a drain waits for items re-added before it; later adds are refused', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  take(queue)
  take(queue)
  queue.add('a')
  const drained = queue.shutDownWithDrain()
  assert.equal(queue.add('b'), false)
  queue.done('b')
  queue.done('a')
  assert.equal(await isOpen(drained), true, 'a has a second run before it')
  assert.equal(take(queue).item, 'a')
  assert.equal(await isOpen(drained), true)
  queue.done('a')
  await drained
  assert.equal(queue.size, 0)
})

test('S7: any number of callers may wait for the drain', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const drains = Array.from({ length: 100 }, () => queue.shutDownWithDrain())
  take(queue)
  queue.done('a')
  assert.equal((await Promise.all(drains)).length, 100)
})

test('S8: an abort of the signal rejects that drain alone; the queue stays shut down', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const quit = new AbortController()
  const patient = queue.shutDownWithDrain()
  const hurried = queue.shutDownWithDrain({ signal: quit.signal })
  quit.abort('deadline')
  assert.equal(await hurried.catch((reason) => reason), 'deadline')
  assert.equal(await isOpen(patient), true)
  assert.equal(queue.shuttingDown, true)
  assert.equal(queue.add('b'), false)
  assert.equal(getEventListeners(quit.signal, 'abort').length, 0)
  takeAll(queue)
  await patient
})

test('S8: a signal aborted before the call rejects, and the queue is still shut down', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const drained = queue.shutDownWithDrain({ signal: AbortSignal.abort('no time') })
  assert.equal(await drained.catch((reason) => reason), 'no time')
  assert.equal(queue.shuttingDown, true)
  assert.equal(queue.add('b'), false)
})

test('a drain leaves no listener on its signal, however it ended', async () => {
  const { signal } = new AbortController()
  const drained = new WorkQueue<string>()
  drained.add('a')
  const one = drained.shutDownWithDrain({ signal })
  takeAll(drained)
  await one
  const cut = new WorkQueue<string>()
  cut.add('a')
  const two = cut.shutDownWithDrain({ signal })
  cut.shutDown()
  await two
  await new WorkQueue<string>().shutDownWithDrain({ signal })
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('S9: using shuts the queue down at the end of the block, without waiting', () => {
  const queue = new WorkQueue<string>()
  {
    using scope = queue
    scope.add('a')
  }
  assert.equal(queue.shuttingDown, true)
  assert.equal(queue.add('b'), false)
  assert.equal(queue.size, 1)
})

test('S9: disposing ends the wait of a drain, as shutDown does', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const drained = queue.shutDownWithDrain()
  queue[Symbol.dispose]()
  await drained
})

test('S9: await using drains the queue at the end of the block', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const disposed = queue[Symbol.asyncDispose]()
  assert.equal(queue.shuttingDown, true)
  assert.equal(await isOpen(disposed), true)
  takeAll(queue)
  await disposed
})

test('S9: disposing of a delaying queue clears its timer', async () => {
  const clock = createFakeClock()
  const one = new DelayingQueue<string>({ clock })
  one.addAfter('a', 10)
  one[Symbol.dispose]()
  assert.equal(clock.timerCount, 0)
  const two = new DelayingQueue<string>({ clock })
  two.addAfter('a', 10)
  await two[Symbol.asyncDispose]()
  assert.equal(clock.timerCount, 0)
})
