/**
 * Contract, "parallelizeUntil":
 *  Z1  visits each piece once;
 *  Z2  a chunk stays with one worker, in order;
 *  Z3  chunk sizes below 1 count as 1.
 *  Z4  Abort: begun pieces end, no more begin, rejects with the reason unless every piece had begun.
 *  Z5  First failure: the same, rejects with it.
 *  Z6  Fewer than one worker is a RangeError.
 */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { parallelizeUntil } from 'signalbox/workqueue'
import { test } from 'vitest'
import { createGate, type Gate, isOpen, quiet } from './probes.ts'

function gatedPieces(): {
  work: (piece: number) => Promise<void>
  begun: number[]
  gates: Map<number, Gate>
} {
  const begun: number[] = []
  const gates = new Map<number, Gate>()
  const work = (piece: number): Promise<void> => {
    begun.push(piece)
    const gate = createGate()
    gates.set(piece, gate)
    return gate.promise
  }
  return { work, begun, gates }
}

test('Z1: each piece is handled once, for any number of workers, pieces and chunk size', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 12 }),
      fc.nat(60),
      fc.integer({ min: -2, max: 70 }),
      async (workers, pieces, chunkSize) => {
        const visits = new Array<number>(pieces).fill(0)
        let now = 0
        let most = 0
        await parallelizeUntil(
          workers,
          pieces,
          async (piece) => {
            visits[piece]!++
            most = Math.max(most, ++now)
            await null
            now--
          },
          { chunkSize },
        )
        assert.equal(visits.length, pieces)
        assert.ok(visits.every((count) => count === 1))
        assert.ok(most <= workers)
      },
    ),
    { numRuns: 100 },
  )
})

test('Z1: zero pieces resolve without work', async () => {
  assert.equal(await parallelizeUntil(3, 0, () => assert.fail('visited')), undefined)
})

test('Z1: the call resolves with undefined, after the last piece ended', async () => {
  const { work, gates } = gatedPieces()
  const ended = parallelizeUntil(3, 3, work)
  await quiet()
  gates.get(0)!.open()
  gates.get(2)!.open()
  assert.equal(await isOpen(ended), true)
  gates.get(1)!.open()
  assert.equal(await ended, undefined)
})

test('Z1: as many pieces as workers run at once, and the next starts when one ends', async () => {
  const { work, gates, begun } = gatedPieces()
  const ended = parallelizeUntil(2, 4, work)
  await quiet()
  assert.deepEqual(begun, [0, 1])
  gates.get(1)!.open()
  await quiet()
  assert.deepEqual(begun, [0, 1, 2])
  gates.get(0)!.open()
  await quiet()
  assert.deepEqual(begun, [0, 1, 2, 3])
  gates.get(2)!.open()
  gates.get(3)!.open()
  await ended
})

test('Z1: pieces may be handled without promises, and more workers than pieces do no harm', async () => {
  const seen: number[] = []
  await parallelizeUntil(1_000_000, 3, (piece) => seen.push(piece))
  assert.deepEqual(seen.sort(), [0, 1, 2])
})

test('Z2: a chunk stays with one worker, in order', async () => {
  const { work, gates, begun } = gatedPieces()
  const ended = parallelizeUntil(2, 7, work, { chunkSize: 3 })
  await quiet()
  assert.deepEqual(begun, [0, 3], 'one chunk each')
  gates.get(3)!.open()
  await quiet()
  assert.deepEqual(begun, [0, 3, 4])
  gates.get(4)!.open()
  await quiet()
  gates.get(5)!.open()
  await quiet()
  assert.deepEqual(begun, [0, 3, 4, 5, 6], 'the free worker takes the next chunk, not a part of the first')
  gates.get(6)!.open()
  await quiet()
  assert.deepEqual(begun, [0, 3, 4, 5, 6], 'pieces 1 and 2 wait for their worker')
  for (const piece of [0, 1, 2]) {
    gates.get(piece)!.open()
    await quiet()
  }
  await ended
  assert.deepEqual(begun, [0, 3, 4, 5, 6, 1, 2])
})

test('Z3: chunk sizes below 1 count as 1', async () => {
  for (const chunkSize of [0, -5, 0.5]) {
    const { work, gates, begun } = gatedPieces()
    const ended = parallelizeUntil(2, 3, work, { chunkSize })
    await quiet()
    assert.deepEqual(begun, [0, 1])
    for (const piece of [0, 1, 2]) {
      gates.get(piece)!.open()
      await quiet()
    }
    await ended
  }
})

test('Z4: on abort started pieces end, no more start, and the call rejects with the reason', async () => {
  const { work, gates, begun } = gatedPieces()
  const quit = new AbortController()
  const ended = parallelizeUntil(2, 5, work, { signal: quit.signal })
  await quiet()
  quit.abort('enough')
  assert.equal(await isOpen(ended), true, 'pieces 0 and 1 have begun')
  gates.get(0)!.open()
  assert.equal(await isOpen(ended), true)
  gates.get(1)!.open()
  assert.equal(await ended.catch((reason) => reason), 'enough')
  assert.deepEqual(begun, [0, 1])
  assert.equal(getEventListeners(quit.signal, 'abort').length, 0)
})

test('Z4: an abort in the middle of a chunk leaves its rest undone', async () => {
  const quit = new AbortController()
  const begun: number[] = []
  const ended = parallelizeUntil(
    1,
    6,
    (piece) => {
      begun.push(piece)
      if (piece === 1) quit.abort('enough')
    },
    { chunkSize: 6, signal: quit.signal },
  )
  assert.equal(await ended.catch((reason) => reason), 'enough')
  assert.deepEqual(begun, [0, 1])
})

test('Z4: an abort after every piece started changes nothing', async () => {
  const { work, gates } = gatedPieces()
  const quit = new AbortController()
  const ended = parallelizeUntil(3, 3, work, { signal: quit.signal })
  await quiet()
  quit.abort('too late')
  for (const gate of gates.values()) gate.open()
  assert.equal(await ended, undefined)
})

test('Z4: an abort by the very last piece changes nothing', async () => {
  const quit = new AbortController()
  const last = (piece: number): void => {
    if (piece === 3) quit.abort('at the end')
  }
  assert.equal(await parallelizeUntil(1, 4, last, { signal: quit.signal }), undefined)
})

test('Z4: with a signal aborted before the call nothing starts', async () => {
  const ended = parallelizeUntil(2, 3, () => assert.fail('begun'), { signal: AbortSignal.abort('no') })
  assert.equal(await ended.catch((reason) => reason), 'no')
  assert.equal(
    await parallelizeUntil(2, 0, () => assert.fail('begun'), { signal: AbortSignal.abort('no') }),
    undefined,
    'of no pieces every one had begun',
  )
})

test('parallelizeUntil leaves no listener on the signal', async () => {
  const { signal } = new AbortController()
  await parallelizeUntil(2, 5, () => {}, { signal })
  await parallelizeUntil(2, 5, () => Promise.reject(new Error('x')), { signal }).catch(() => {})
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('Z5: on the first failure started pieces end, no more start, and the call rejects with it', async () => {
  const { work, gates, begun } = gatedPieces()
  const ended = parallelizeUntil(2, 5, work)
  ended.catch(() => {})
  await quiet()
  gates.get(0)!.fail(new Error('first'))
  assert.equal(await isOpen(ended), true, 'piece 1 has begun')
  gates.get(1)!.fail(new Error('second'))
  await assert.rejects(ended, /first/)
  assert.deepEqual(begun, [0, 1])
})

test('Z5: a failure rejects also when every piece had started', async () => {
  const { work, gates } = gatedPieces()
  const ended = parallelizeUntil(2, 2, work)
  await quiet()
  gates.get(0)!.open()
  gates.get(1)!.fail(new Error('last'))
  await assert.rejects(ended, /last/)
})

test('Z5: a throw is a failure like a rejection, also of undefined', async () => {
  const begun: number[] = []
  const throwing = (piece: number): void => {
    begun.push(piece)
    if (piece === 1) throw new Error('thrown')
  }
  await assert.rejects(parallelizeUntil(1, 4, throwing), /thrown/)
  assert.deepEqual(begun, [0, 1])
  const silent = parallelizeUntil(1, 2, () => Promise.reject(undefined))
  assert.equal(
    await silent.then(
      () => 'resolved',
      (error) => error,
    ),
    undefined,
  )
})

test('Z5: a failure before an abort is the reason of the rejection', async () => {
  const { work, gates } = gatedPieces()
  const quit = new AbortController()
  const ended = parallelizeUntil(2, 5, work, { signal: quit.signal })
  ended.catch(() => {})
  await quiet()
  gates.get(0)!.fail(new Error('failed'))
  await quiet()
  quit.abort(new Error('aborted'))
  gates.get(1)!.open()
  await assert.rejects(ended, /failed/)
})

test('Z6: fewer than one worker is a RangeError, and nothing starts', async () => {
  for (const workers of [0, -1, 0.5, Number.NaN]) {
    await assert.rejects(
      async () => parallelizeUntil(workers, 3, () => assert.fail('begun')),
      RangeError,
      String(workers),
    )
  }
})

test('ten thousand pieces without promises do not overflow the stack', async () => {
  let sum = 0
  await parallelizeUntil(4, 10_000, (piece) => {
    sum += piece
  })
  assert.equal(sum, 49_995_000)
})
