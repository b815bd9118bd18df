/**
 * Contract, "Pending and in flight" and the comments on get, tryGet, Work and NoWork:
 *  G1  get waits; rejects with signal.reason on abort.
 *  G2  tryGet: the same without waiting (undefined when there is nothing).
 *  G3  Blocked getters are served in the order they came.
 *  G4  An item given to one is in flight at once, by way of the store.
 *  G5  An aborted `get` takes nothing, keeps no listener on the signal and does not shut the queue down.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { WorkQueue } from 'signalbox/workqueue'
import { test } from 'vitest'
import { isOpen, TapeStore, take, takeAll, workOf } from './probes.ts'

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length

test('a get takes its item at the call, before it is awaited', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  const gets = [queue.get(), queue.get()]
  assert.deepEqual([queue.size, queue.processing], [0, 2])
  assert.deepEqual(
    (await Promise.all(gets)).map(({ item }) => item),
    ['a', 'b'],
  )
})

test('a Work has shutdown: false, its item and its priority', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a', { priority: 4 })
  const { shutdown, item, priority } = await workOf(queue.get())
  assert.deepEqual({ shutdown, item, priority }, { shutdown: false, item: 'a', priority: 4 })
})

test('G1: a get on an empty queue waits until something is added', async () => {
  const queue = new WorkQueue<string>()
  const got = queue.get()
  assert.equal(await isOpen(got), true)
  queue.add('a')
  assert.equal((await got).item, 'a')
})

test('G2: tryGet takes like get, and returns undefined when the queue is empty', () => {
  const queue = new WorkQueue<string>()
  assert.equal(queue.tryGet(), undefined)
  queue.add('a')
  assert.equal(take(queue).item, 'a')
  assert.equal(queue.processing, 1)
  assert.equal(queue.tryGet(), undefined)
  queue.shutDown()
  const none = queue.tryGet()
  assert.equal(none?.shutdown, true)
  assert.equal(none?.item, undefined)
})

test('G3: blocked getters get items in the order they came', async () => {
  const queue = new WorkQueue<string>()
  const gets = [queue.get(), queue.get(), queue.get()]
  for (const item of ['a', 'b', 'c']) queue.add(item)
  assert.deepEqual(
    (await Promise.all(gets)).map(({ item }) => item),
    ['a', 'b', 'c'],
  )
})

test('G3: blocked getters get items in the order they came, also when the later item is more urgent', async () => {
  const queue = new WorkQueue<string>()
  const first = queue.get()
  const second = queue.get()
  queue.add('plain')
  queue.add('urgent', { priority: 9 })
  assert.equal((await first).item, 'plain')
  assert.equal((await second).item, 'urgent')
})

test('G3, G5: getters that gave up in the middle are skipped, the others keep their order', async () => {
  const queue = new WorkQueue<string>()
  const quits = [new AbortController(), new AbortController()]
  const first = queue.get()
  const gone = queue.get({ signal: quits[0]!.signal })
  const second = queue.get()
  const goneToo = queue.get({ signal: quits[1]!.signal })
  const third = queue.get()
  quits[1]!.abort(new Error('two'))
  quits[0]!.abort(new Error('one'))
  await assert.rejects(gone, /one/)
  await assert.rejects(goneToo, /two/)
  for (const item of ['a', 'b', 'c', 'd']) queue.add(item)
  assert.deepEqual(
    (await Promise.all([first, second, third])).map(({ item }) => item),
    ['a', 'b', 'c'],
  )
  assert.deepEqual(takeAll(queue), ['d'])
})

test('G3, G5: the first and the last getter may give up too', async () => {
  const queue = new WorkQueue<string>()
  const quit = new AbortController()
  const { signal } = quit
  const gone = [queue.get({ signal }), queue.get({ signal })]
  const stays = queue.get()
  const last = queue.get({ signal })
  quit.abort('enough')
  for (const got of [...gone, last]) assert.equal(await got.catch((reason) => reason), 'enough')
  const next = queue.get()
  queue.add('a')
  queue.add('b')
  assert.equal((await stays).item, 'a')
  assert.equal((await next).item, 'b')
})

test('G4: an item given to a blocked getter is in flight at once, before the getter runs', async () => {
  const queue = new WorkQueue<string>()
  const got = queue.get()
  assert.equal(queue.add('a'), true)
  assert.deepEqual([queue.size, queue.processing, queue.stats().depth], [0, 1, 0])
  assert.equal(queue.tryGet(), undefined, 'no other getter can have it')
  assert.equal(queue.add('a'), true, 'an add now is one of an item in flight')
  assert.equal((await got).item, 'a')
})

test('G4: items for blocked getters pass through the store, push and then pop', async () => {
  const tape = new TapeStore<string>()
  const queue = new WorkQueue<string>({ queue: tape })
  const got = queue.get()
  queue.add('a', { priority: 2 })
  assert.deepEqual(tape.names, ['push', 'pop'])
  assert.equal(tape.calls[0]!.entry, tape.calls[1]!.entry)
  queue.add('a')
  const again = queue.get()
  queue.done('a')
  assert.deepEqual(tape.names, ['push', 'pop', 'push', 'pop'])
  assert.equal((await workOf(got)).priority, 2)
  assert.equal((await again).item, 'a')
})

test('a blocked getter gets a re-added item at done', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  take(queue)
  queue.add('a')
  const got = queue.get()
  assert.equal(await isOpen(got), true)
  queue.done('a')
  assert.equal((await got).item, 'a')
  assert.equal(queue.processing, 1)
})

test('G5: a get with an aborted signal rejects with its reason and takes nothing', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const reason = new Error('too late')
  const { signal } = { signal: AbortSignal.abort(reason) }
  assert.equal(await queue.get({ signal }).catch((error) => error), reason)
  assert.deepEqual([queue.size, queue.processing, queue.shuttingDown], [1, 0, false])
  assert.equal(listeners(signal), 0)
  assert.deepEqual(takeAll(queue), ['a'])
})

test('G5: an aborted get rejects with the reason, takes nothing and does not shut the queue down', async () => {
  const queue = new WorkQueue<string>()
  const quit = new AbortController()
  const got = queue.get({ signal: quit.signal })
  assert.equal(await isOpen(got), true)
  quit.abort({ any: 'value' })
  assert.deepEqual(await got.catch((reason) => reason), { any: 'value' })
  assert.equal(queue.shuttingDown, false)
  assert.equal(queue.add('a'), true)
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('G5: an abort without a reason rejects with the AbortError of the signal', async () => {
  const queue = new WorkQueue<string>()
  const quit = new AbortController()
  const got = queue.get({ signal: quit.signal })
  quit.abort()
  const error = await got.catch((reason) => reason)
  assert.equal(error, quit.signal.reason)
  assert.equal(error.name, 'AbortError')
})

test('G5: no listener stays on the signal, however the get ended', async () => {
  const queue = new WorkQueue<string>()
  const { signal } = new AbortController()
  queue.add('a')
  await queue.get({ signal })
  assert.equal(listeners(signal), 0, 'served at once')

  const blocked = queue.get({ signal })
  queue.add('b')
  await blocked
  assert.equal(listeners(signal), 0, 'served later')

  const quit = new AbortController()
  const aborted = queue.get({ signal: quit.signal })
  quit.abort()
  await aborted.catch(() => {})
  assert.equal(listeners(quit.signal), 0, 'aborted')

  const last = queue.get({ signal })
  queue.shutDown()
  await last
  assert.equal(listeners(signal), 0, 'shut down')
})

test('an abort after a getter got its item, but before it ran, changes nothing', async () => {
  const queue = new WorkQueue<string>()
  const quit = new AbortController()
  const got = queue.get({ signal: quit.signal })
  queue.add('a')
  quit.abort(new Error('late'))
  const work = await workOf(got)
  assert.equal(work.item, 'a')
  assert.equal(queue.processing, 1)
  assert.equal(queue.done('a'), true)
})

test('one signal may abort many getters, and leaves getters without it', async () => {
  const queue = new WorkQueue<number>()
  const quit = new AbortController()
  const gone = Array.from({ length: 20 }, () => queue.get({ signal: quit.signal }))
  const stays = queue.get()
  quit.abort()
  const settled = await Promise.allSettled(gone)
  assert.ok(settled.every(({ status }) => status === 'rejected'))
  queue.add(1)
  assert.equal((await stays).item, 1)
})

test('a getter that aborts another in an abort listener does not lose its item', async () => {
  const queue = new WorkQueue<string>()
  const one = new AbortController()
  const two = new AbortController()
  one.signal.addEventListener('abort', () => two.abort('chained'))
  const first = queue.get({ signal: one.signal })
  const second = queue.get({ signal: two.signal })
  one.abort('first')
  assert.equal(await first.catch((reason) => reason), 'first')
  assert.equal(await second.catch((reason) => reason), 'chained')
  queue.add('a')
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('aborting twenty thousand blocked getters one by one stays cheap', async () => {
  const queue = new WorkQueue<number>()
  const quits = Array.from({ length: 20_000 }, () => new AbortController())
  const gets = quits.map(({ signal }) => queue.get({ signal }).catch(() => 'gone'))
  const start = performance.now()
  for (const quit of quits.toReversed()) quit.abort()
  assert.ok((await Promise.all(gets)).every((end) => end === 'gone'))
  assert.ok(performance.now() - start < 10_000)
})
