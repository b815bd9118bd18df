/**
 * Contract, "run":
 *  N1  run takes up to `concurrency` items at a time (default 1)
 *  N2  until the queue is shut down and empty, or `signal` aborts: both resolve, after the running handlers.
 *  N3  Each item is done when its handler settles.
 *  N4  On a rate limiting queue success forgets;
 *  N5  failure calls `onError`, then `addRateLimited` at the item's priority,
 *  N6  or `forget` once `numRequeues` has reached `maxRetries` (default Infinity).
 *  N7  On other queues a failure goes to `onError`; without one `run` stops and rejects with it.
 *  N8  Several runs may share a queue: that is how workers are added and taken away.
 *  N9  Concurrency below 1 is a RangeError.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { createFakeClock } from 'signalbox/testing'
import {
  DelayingQueue,
  ItemExponentialFailureRateLimiter,
  type RateLimiter,
  RateLimitingQueue,
  WorkQueue,
} from 'signalbox/workqueue'
import { test } from 'vitest'
import { createGate, type Gate, isOpen, quiet } from './probes.ts'

/** A handler whose calls end when the test says so. */
function gated(): { handler: (item: string) => Promise<void>; gates: Map<string, Gate>; begun: string[] } {
  const gates = new Map<string, Gate>()
  const begun: string[] = []
  const handler = (item: string): Promise<void> => {
    const gate = createGate()
    gates.set(item, gate)
    begun.push(item)
    return gate.promise
  }
  return { handler, gates, begun }
}

function retrying(baseDelay = 5): {
  queue: RateLimitingQueue<string>
  clock: ReturnType<typeof createFakeClock>
} {
  const clock = createFakeClock()
  const rateLimiter = new ItemExponentialFailureRateLimiter<string>(baseDelay, 1_000)
  return { queue: new RateLimitingQueue<string>({ clock, rateLimiter }), clock }
}

test('N1: by default one item is handled at a time, in order', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c']) queue.add(item)
  const { handler, gates, begun } = gated()
  const ran = queue.run(handler)
  for (const item of ['a', 'b', 'c']) {
    await quiet()
    assert.equal(begun.at(-1), item)
    assert.equal(queue.processing, 1)
    gates.get(item)!.open()
  }
  queue.shutDown()
  await ran
  assert.deepEqual(begun, ['a', 'b', 'c'])
})

test('N1: at most concurrency items are handled at a time', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c', 'd', 'e']) queue.add(item)
  const { handler, gates, begun } = gated()
  const ran = queue.run(handler, { concurrency: 3 })
  await quiet()
  assert.deepEqual(begun, ['a', 'b', 'c'])
  assert.deepEqual([queue.processing, queue.size], [3, 2])
  gates.get('b')!.open()
  await quiet()
  assert.deepEqual(begun, ['a', 'b', 'c', 'd'])
  assert.equal(queue.processing, 3)
  queue.shutDown()
  for (const item of ['a', 'c', 'd']) gates.get(item)!.open()
  await quiet()
  assert.equal(await isOpen(ran), true)
  gates.get('e')!.open()
  await ran
})

test('N1: a run takes later items as soon as they are added', async () => {
  const queue = new WorkQueue<string>()
  const { handler, gates, begun } = gated()
  const ran = queue.run(handler, { concurrency: 2 })
  await quiet()
  assert.equal(queue.processing, 0)
  for (const item of ['a', 'b', 'c']) queue.add(item)
  await quiet()
  assert.deepEqual(begun, ['a', 'b'])
  queue.shutDown()
  for (const item of ['a', 'b', 'c']) {
    gates.get(item)!.open()
    await quiet()
  }
  await ran
  assert.deepEqual(begun, ['a', 'b', 'c'])
})

test('N2: a run ends when the queue is shut down and empty, and returns nothing', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  queue.shutDown()
  const seen: string[] = []
  assert.equal(await queue.run((item) => void seen.push(item)), undefined)
  assert.deepEqual(seen, ['a', 'b'])
  await queue.run(() => assert.fail('nothing is left'))
})

test('N2: a run of an idle queue continues until shutDown', async () => {
  const queue = new WorkQueue<string>()
  const ran = queue.run(() => {}, { concurrency: 4 })
  assert.equal(await isOpen(ran), true)
  queue.shutDown()
  await ran
})

test('N2: after shutDown a run resolves only when the running handlers have ended', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const { handler, gates } = gated()
  const ran = queue.run(handler, { concurrency: 2 })
  await quiet()
  queue.shutDown()
  assert.equal(await isOpen(ran), true)
  gates.get('a')!.open()
  await ran
  assert.equal(queue.processing, 0)
})

test('N2: a drain ends when the runs have emptied the queue', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c']) queue.add(item)
  const seen: string[] = []
  const ran = queue.run(async (item) => {
    await quiet()
    seen.push(item)
  })
  await queue.shutDownWithDrain()
  assert.deepEqual(seen, ['a', 'b', 'c'])
  await ran
})

test('N2: a queue with a re-added item in flight is not empty: the run handles its second turn', async () => {
  for (const concurrency of [1, 2, 5]) {
    const queue = new WorkQueue<string>()
    const { handler, gates, begun } = gated()
    const ran = queue.run(handler, { concurrency })
    queue.add('a')
    await quiet()
    queue.add('a')
    const drained = queue.shutDownWithDrain()
    await quiet()
    gates.get('a')!.open()
    await quiet()
    assert.deepEqual(begun, ['a', 'a'], `concurrency ${concurrency}`)
    assert.equal(await isOpen(ran), true)
    gates.get('a')!.open()
    await Promise.all([ran, drained])
    assert.deepEqual([queue.size, queue.processing], [0, 0])
  }
})

test('N2: several runs at shutDown leave no re-added item behind', async () => {
  const queue = new WorkQueue<string>()
  const { handler, gates, begun } = gated()
  const runs = [queue.run(handler), queue.run(handler, { concurrency: 3 }), queue.run(handler)]
  await quiet()
  queue.add('a')
  await quiet()
  queue.add('a')
  const drained = queue.shutDownWithDrain()
  await quiet()
  gates.get('a')!.open()
  await quiet()
  assert.deepEqual(begun, ['a', 'a'])
  gates.get('a')!.open()
  await Promise.all([...runs, drained])
})

test('N2: an accepted retry without a wait has its turn at shutDown', async () => {
  const { queue } = retrying(0)
  const begun: string[] = []
  const gate = createGate()
  const ran = queue.run(
    async (item) => {
      begun.push(item)
      if (begun.length > 1) return
      queue.addRateLimited(item)
      await gate.promise
    },
    { concurrency: 3 },
  )
  queue.add('a')
  await quiet()
  const drained = queue.shutDownWithDrain()
  gate.open()
  await quiet()
  assert.deepEqual(begun, ['a', 'a'])
  await Promise.all([ran, drained])
})

test('N1: with a concurrency of Infinity all ready items are handled at once', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c', 'd']) queue.add(item)
  const { handler, gates } = gated()
  const ran = queue.run(handler, { concurrency: Number.POSITIVE_INFINITY })
  await quiet()
  assert.equal(queue.processing, 4)
  queue.add('e')
  await quiet()
  assert.equal(queue.processing, 5)
  queue.shutDown()
  for (const gate of gates.values()) gate.open()
  await ran
})

test('N2: an abort while a run is blocked resolves it, and it takes no more items', async () => {
  const queue = new WorkQueue<string>()
  const quit = new AbortController()
  const ran = queue.run(() => assert.fail('nothing was added in time'), {
    concurrency: 3,
    signal: quit.signal,
  })
  assert.equal(await isOpen(ran), true)
  quit.abort(new Error('enough'))
  queue.add('late')
  assert.equal(await ran, undefined)
  assert.deepEqual([queue.size, queue.processing, queue.shuttingDown], [1, 0, false])
})

test('N2: an abort while handlers run resolves after they ended; the rest stays queued', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c', 'd']) queue.add(item)
  const { handler, gates, begun } = gated()
  const quit = new AbortController()
  const ran = queue.run(handler, { concurrency: 2, signal: quit.signal })
  await quiet()
  quit.abort()
  assert.equal(await isOpen(ran), true)
  gates.get('a')!.open()
  assert.equal(await isOpen(ran), true)
  gates.get('b')!.open()
  await ran
  assert.deepEqual(begun, ['a', 'b'])
  assert.deepEqual([queue.size, queue.processing], [2, 0])
})

test('N2: a handler that aborts its own run is the last', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c']) queue.add(item)
  const quit = new AbortController()
  const seen: string[] = []
  await queue.run(
    (item) => {
      seen.push(item)
      if (item === 'b') quit.abort()
    },
    { signal: quit.signal },
  )
  assert.deepEqual(seen, ['a', 'b'])
  assert.equal(queue.size, 1)
})

test('N2: with a signal aborted before the call the run takes nothing and resolves', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  await queue.run(() => assert.fail('taken'), { signal: AbortSignal.abort(new Error('no')), concurrency: 2 })
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('a run leaves no listener on its signal, and does not pile them up while it works', async () => {
  const queue = new WorkQueue<number>()
  const { signal } = new AbortController()
  let most = 0
  const ran = queue.run(
    async () => {
      await quiet()
      most = Math.max(most, getEventListeners(signal, 'abort').length)
    },
    { signal, concurrency: 2 },
  )
  for (let i = 0; i < 200; i++) queue.add(i)
  await queue.onIdle()
  queue.shutDown()
  await ran
  assert.ok(most <= 3, `${most} listeners at once`)
  assert.equal(getEventListeners(signal, 'abort').length, 0)

  const quit = new AbortController()
  const aborted = new WorkQueue<string>().run(() => {}, { signal: quit.signal })
  quit.abort()
  await aborted
  assert.equal(getEventListeners(quit.signal, 'abort').length, 0)
})

test('N3: an item is in flight while its handler runs and done when it settles', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const { handler, gates } = gated()
  const ran = queue.run(handler)
  await quiet()
  assert.equal(queue.processing, 1)
  queue.add('a')
  await quiet()
  assert.equal(queue.size, 0, 're-added, and still in flight')
  gates.get('a')!.open()
  await quiet()
  assert.equal(queue.processing, 1, 'its second turn')
  gates.get('a')!.open()
  queue.shutDown()
  await ran
})

test('N3: handlers may be plain, async, or return a thenable', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['plain', 'async', 'thenable']) queue.add(item)
  const gate = createGate()
  const ended: string[] = []
  const ran = queue.run((item): unknown => {
    if (item === 'plain') return ended.push(item)
    if (item === 'async') return quiet().then(() => ended.push(item))
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tried here
    return { then: (resolve: () => void) => void gate.promise.then(() => resolve()) }
  })
  await quiet()
  await quiet()
  assert.equal(queue.processing, 1)
  queue.shutDown()
  assert.equal(await isOpen(ran), true, 'the thenable is waited for')
  gate.open()
  await ran
  assert.deepEqual(ended, ['plain', 'async'])
})

test('N3: a handler that ends its own turn does not end the turn of a later consumer', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  const gate = createGate()
  const ran = queue.run(async (item) => {
    queue.done(item)
    await gate.promise
  })
  await quiet()
  assert.equal(queue.processing, 0)
  queue.add('a')
  const theirs = queue.tryGet()
  assert.equal(theirs?.item, 'a')
  queue.shutDown()
  gate.open()
  await ran
  assert.equal(queue.processing, 1)
})

test('N4: a success forgets the failures of the item', async () => {
  const { queue, clock } = retrying()
  let calls = 0
  const ran = queue.run(() => {
    if (++calls < 3) throw new Error('not yet')
  })
  queue.add('a')
  await quiet()
  assert.deepEqual([calls, queue.numRequeues('a'), queue.readyAt('a'), queue.processing], [1, 1, 5, 0])
  clock.advance(5)
  await quiet()
  assert.deepEqual([calls, queue.numRequeues('a'), queue.readyAt('a')], [2, 2, 15])
  clock.advance(10)
  await quiet()
  assert.deepEqual([calls, queue.numRequeues('a'), queue.waiting], [3, 0, 0])
  queue.shutDown()
  await ran
})

test('N5: a failure calls onError with the error and the item, before the item is added again', async () => {
  const { queue } = retrying()
  const failure = new Error('broken')
  const reported: unknown[] = []
  const ran = queue.run(
    async () => {
      throw failure
    },
    { onError: (error, item) => reported.push([error, item, queue.waiting, queue.numRequeues(item)]) },
  )
  queue.add('a')
  await quiet()
  assert.deepEqual(reported, [[failure, 'a', 0, 0]])
  assert.deepEqual([queue.waiting, queue.numRequeues('a'), queue.processing], [1, 1, 0])
  queue.shutDown()
  await ran
})

test('N5: without onError a rate limiting queue still retries, and the run continues', async () => {
  const { queue, clock } = retrying()
  const seen: string[] = []
  const ran = queue.run((item) => {
    seen.push(item)
    if (item === 'bad') throw new Error('broken')
  })
  queue.add('bad')
  queue.add('good')
  await quiet()
  clock.advance(5)
  await quiet()
  assert.deepEqual(seen, ['bad', 'good', 'bad'])
  queue.shutDown()
  await ran
})

test('N5: the retry has the priority that the item had', async () => {
  const { queue, clock } = retrying()
  queue.add('a', { priority: 7 })
  const quit = new AbortController()
  await queue.run(
    () => {
      quit.abort()
      throw new Error('broken')
    },
    { signal: quit.signal },
  )
  clock.advance(5)
  const work = queue.tryGet()
  assert.ok(work && !work.shutdown)
  assert.equal(work.priority, 7)
})

test('N5: a retry without a wait comes behind the queued items', async () => {
  const { queue } = retrying(0)
  const seen: string[] = []
  queue.add('a')
  queue.add('b')
  const ran = queue.run((item) => {
    seen.push(item)
    if (seen.length === 1) throw new Error('once')
    if (seen.length === 3) queue.shutDown()
  })
  await ran
  assert.deepEqual(seen, ['a', 'b', 'a'])
})

test('N6: once numRequeues has reached maxRetries the item is forgotten and not added again', async () => {
  const { queue, clock } = retrying()
  let calls = 0
  const reported: number[] = []
  const ran = queue.run(
    () => {
      calls++
      throw new Error('always')
    },
    { maxRetries: 2, onError: (_, item) => reported.push(queue.numRequeues(item)) },
  )
  queue.add('a')
  for (let i = 0; i < 6; i++) {
    await quiet()
    clock.advance(1_000)
  }
  assert.equal(calls, 3, 'the first try and two more')
  assert.deepEqual(reported, [0, 1, 2], 'the last failure is told too')
  assert.deepEqual([queue.numRequeues('a'), queue.waiting, queue.size, queue.processing], [0, 0, 0, 0])
  queue.add('a')
  await quiet()
  assert.equal(queue.numRequeues('a'), 1, 'a new add has its retries again')
  queue.shutDown()
  await ran
})

test('N6: with maxRetries 0 an item is tried once', async () => {
  const { queue, clock } = retrying()
  let calls = 0
  const ran = queue.run(
    () => {
      calls++
      throw new Error('always')
    },
    { maxRetries: 0 },
  )
  queue.add('a')
  await quiet()
  clock.advance(60_000)
  await quiet()
  assert.deepEqual([calls, queue.numRequeues('a'), queue.waiting], [1, 0, 0])
  queue.shutDown()
  await ran
})

test('N6: by default retries never end', async () => {
  const { queue } = retrying(0)
  let calls = 0
  const ran = queue.run(() => {
    if (++calls < 500) throw new Error('again')
    queue.shutDown()
  })
  queue.add('a')
  await ran
  assert.equal(calls, 500)
})

test('N6: maxRetries Infinity is the default', async () => {
  const { queue } = retrying(0)
  let calls = 0
  const ran = queue.run(
    () => {
      if (++calls < 50) throw new Error('again')
      queue.shutDown()
    },
    { maxRetries: Number.POSITIVE_INFINITY },
  )
  queue.add('a')
  await ran
  assert.equal(calls, 50)
})

test('N4, N5: the run asks the limiter in the contract’s order, with item and key', async () => {
  const asked: unknown[] = []
  const rateLimiter: RateLimiter<string> = {
    when: (item, key) => {
      asked.push(['when', item, key])
      return 0
    },
    forget: (item, key) => void asked.push(['forget', item, key]),
    numRequeues: () => 0,
  }
  const queue = new RateLimitingQueue<string>({ rateLimiter, key: (item) => `key of ${item}` })
  let calls = 0
  const ran = queue.run(
    () => {
      if (++calls === 1) throw new Error('once')
      queue.shutDown()
    },
    { onError: () => asked.push('onError') },
  )
  queue.add('a')
  await ran
  assert.deepEqual(asked, ['onError', ['when', 'a', 'key of a'], ['forget', 'a', 'key of a']])
})

test('a failure after shutDown is reported, counts nothing and does not delay the run', async () => {
  const { queue } = retrying()
  queue.add('a')
  const reported: string[] = []
  const ran = queue.run(
    () => {
      queue.shutDown()
      throw new Error('late')
    },
    { onError: (_, item) => reported.push(item) },
  )
  await ran
  assert.deepEqual(reported, ['a'])
  assert.deepEqual([queue.numRequeues('a'), queue.waiting, queue.processing], [0, 0, 0])
})

test('N7: on other queues a failure goes to onError and the run continues, without a retry', async () => {
  for (const queue of [new WorkQueue<string>(), new DelayingQueue<string>({ clock: createFakeClock() })]) {
    const reported: unknown[] = []
    const seen: string[] = []
    for (const item of ['sync', 'async', 'good']) queue.add(item)
    const ran = queue.run(
      (item) => {
        seen.push(item)
        if (item === 'sync') throw new Error('sync')
        if (item === 'async') return Promise.reject(new Error('async'))
        return undefined
      },
      { onError: (error, item) => reported.push([(error as Error).message, item]), maxRetries: 5 },
    )
    await quiet()
    assert.deepEqual(seen, ['sync', 'async', 'good'])
    assert.deepEqual(reported, [
      ['sync', 'sync'],
      ['async', 'async'],
    ])
    assert.deepEqual([queue.processing, queue.size, queue.waiting], [0, 0, 0])
    queue.shutDown()
    await ran
  }
})

test('N7: without onError the run stops and rejects with the failure; the queue continues', async () => {
  for (const queue of [new WorkQueue<string>(), new DelayingQueue<string>({ clock: createFakeClock() })]) {
    const failure = new Error('broken')
    queue.add('a')
    queue.add('b')
    const ran = queue.run(() => {
      throw failure
    })
    assert.equal(await ran.catch((error) => error), failure)
    assert.deepEqual([queue.size, queue.processing, queue.shuttingDown], [1, 0, false])
  }
})

test('N7: a handler that fails with undefined fails too', async () => {
  const queue = new WorkQueue<string>()
  queue.add('a')
  queue.add('b')
  const ran = queue.run(() => Promise.reject(undefined))
  assert.equal(
    await ran.then(
      () => 'resolved',
      (error) => error,
    ),
    undefined,
  )
  assert.equal(queue.size, 1)
})

test('N7: when a run stops, its other handlers end and their items are done; it takes no more', async () => {
  const queue = new WorkQueue<string>()
  for (const item of ['a', 'b', 'c']) queue.add(item)
  const { handler, gates, begun } = gated()
  const ran = queue.run(handler, { concurrency: 2 })
  ran.catch(() => {})
  await quiet()
  gates.get('a')!.fail(new Error('first'))
  await quiet()
  assert.deepEqual(begun, ['a', 'b'], 'no more is taken')
  assert.equal(queue.processing, 1)
  gates.get('b')!.fail(new Error('second'))
  await assert.rejects(ran, /first/)
  await quiet()
  assert.deepEqual([queue.processing, queue.size], [0, 1])
})

test('N7: when a run stops, its blocked takers end: later items stay for others', async () => {
  const queue = new WorkQueue<string>()
  const ran = queue.run(
    () => {
      throw new Error('broken')
    },
    { concurrency: 3 },
  )
  await quiet()
  queue.add('a')
  await assert.rejects(ran, /broken/)
  queue.add('b')
  await quiet()
  assert.deepEqual([queue.size, queue.processing], [1, 0])
})

test('N7: a run that stops leaves no listener on its signal', async () => {
  const queue = new WorkQueue<string>()
  const { signal } = new AbortController()
  queue.add('a')
  const ran = queue.run(() => Promise.reject(new Error('broken')), { signal, concurrency: 2 })
  await assert.rejects(ran, /broken/)
  await quiet()
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('an onError that throws neither blocks the run nor leaves the item in flight', async () => {
  for (const queue of [new WorkQueue<string>(), retrying().queue]) {
    queue.add('a')
    const ran = queue
      .run(
        () => {
          throw new Error('broken')
        },
        {
          onError: () => {
            throw new Error('onError broke')
          },
        },
      )
      .catch((error) => error)
    await quiet()
    assert.equal(queue.processing, 0)
    queue.shutDown()
    await ran
  }
})

test('N8: several runs share a queue, and one of them can be stopped', async () => {
  const queue = new WorkQueue<string>()
  const first = gated()
  const second = gated()
  const quit = new AbortController()
  const stays = queue.run(first.handler)
  const leaves = queue.run(second.handler, { signal: quit.signal })
  await quiet()
  for (const item of ['a', 'b', 'c', 'd']) queue.add(item)
  await quiet()
  assert.deepEqual([first.begun, second.begun], [['a'], ['b']])
  quit.abort()
  second.gates.get('b')!.open()
  await leaves
  assert.equal(queue.size, 2)
  for (const item of ['a', 'c', 'd']) {
    first.gates.get(item)!.open()
    await quiet()
  }
  assert.deepEqual(first.begun, ['a', 'c', 'd'])
  queue.shutDown()
  await stays
})

test('N8: no item is in flight twice, with many runs and handlers that re-add', async () => {
  const queue = new WorkQueue<number>()
  const inFlight = new Set<number>()
  let handled = 0
  const handler = async (item: number): Promise<void> => {
    assert.ok(!inFlight.has(item), 'in flight once only')
    inFlight.add(item)
    if (handled < 500) queue.add((item + 1) % 7)
    if (handled < 500) queue.add(item)
    await quiet()
    inFlight.delete(item)
    handled++
  }
  const runs = [
    queue.run(handler, { concurrency: 3 }),
    queue.run(handler),
    queue.run(handler, { concurrency: 2 }),
  ]
  for (let i = 0; i < 7; i++) queue.add(i)
  await queue.onIdle()
  queue.shutDown()
  await Promise.all(runs)
  assert.ok(handled >= 500)
})

test('N9: concurrency below 1 is a RangeError, and nothing is taken', async () => {
  for (const concurrency of [0, -1, 0.5, Number.NaN, Number.NEGATIVE_INFINITY]) {
    const queue = new WorkQueue<string>()
    queue.add('a')
    await assert.rejects(
      async () => queue.run(() => assert.fail('taken'), { concurrency }),
      RangeError,
      String(concurrency),
    )
    assert.deepEqual([queue.size, queue.processing], [1, 0])
  }
})
