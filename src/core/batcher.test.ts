import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Batcher, type BatcherOptions } from './batcher.ts'

interface Batch {
  readonly items: readonly string[]
  readonly end: () => void
  readonly fail: (error: unknown) => void
}

/** A batcher whose batches end when the test says so; each answer is the item in capitals. */
function createSlow(options: Omit<BatcherOptions<string, string>, 'run'> = {}) {
  const batches: Batch[] = []
  const run = (items: readonly string[]) =>
    new Promise<readonly string[]>((resolve, reject) => {
      const end = () => resolve(items.map((item) => item.toUpperCase()))
      batches.push({ items, end, fail: reject })
    })
  const batcher = new Batcher({ run, ...options })
  return { batcher, batches, sizes: () => batches.map(({ items }) => items.length) }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

test('items of one turn are one batch, and each call gets its own answer', async () => {
  const { batcher, batches } = createSlow()
  const calls = ['a', 'b', 'c'].map((item) => batcher.add(item))
  assert.equal(batches.length, 0)
  await turn()
  assert.deepEqual(
    batches.map(({ items }) => items),
    [['a', 'b', 'c']],
  )
  batches[0]!.end()
  assert.deepEqual(await Promise.all(calls), ['A', 'B', 'C'])
})

test('items that come while all batches are in flight go together in the next', async () => {
  const { batcher, batches, sizes } = createSlow({ maxInFlight: 2 })
  const calls = [batcher.add('a')]
  await turn()
  calls.push(batcher.add('b'))
  await turn()
  calls.push(batcher.add('c'), batcher.add('d'))
  await turn()
  assert.deepEqual(sizes(), [1, 1])
  assert.equal(batcher.waitingCount, 2)
  batches[1]!.end()
  await calls[1]
  await turn()
  assert.deepEqual(sizes(), [1, 1, 2])
  batches[0]!.end()
  batches[2]!.end()
  assert.deepEqual(await Promise.all(calls), ['A', 'B', 'C', 'D'])
})

test('a batch beside a larger one begins when it is as large', async () => {
  const { batcher, batches, sizes } = createSlow({ maxInFlight: 2, gatherMs: 60_000 })
  const calls = ['a', 'b'].map((item) => batcher.add(item))
  await turn()
  calls.push(batcher.add('c'))
  await turn()
  assert.deepEqual(sizes(), [2])
  calls.push(batcher.add('d'))
  await turn()
  assert.deepEqual(sizes(), [2, 2])
  for (const { end } of batches) end()
  assert.deepEqual(await Promise.all(calls), ['A', 'B', 'C', 'D'])
})

test('a small batch begins when the larger one ends', async () => {
  const { batcher, batches, sizes } = createSlow({ maxInFlight: 2, gatherMs: 60_000 })
  const calls = ['a', 'b'].map((item) => batcher.add(item))
  await turn()
  const small = batcher.add('c')
  batches[0]!.end()
  await Promise.all(calls)
  await turn()
  assert.deepEqual(sizes(), [2, 1])
  batches[1]!.end()
  assert.equal(await small, 'C')
})

test('a small batch does not wait longer than gatherMs for a larger one that hangs', async () => {
  const { promise: began, resolve } = Promise.withResolvers<void>()
  const hangs = Promise.withResolvers<readonly string[]>()
  const batcher = new Batcher<string, string>({
    maxInFlight: 2,
    gatherMs: 1,
    run(items) {
      if (items.includes('a')) return hangs.promise
      resolve()
      return Promise.resolve(items)
    },
  })
  const calls = ['a', 'b'].map((item) => batcher.add(item))
  await turn()
  calls.push(batcher.add('c'))
  await began
  hangs.resolve(['a', 'b'])
  assert.deepEqual(await Promise.all(calls), ['a', 'b', 'c'])
})

test('a batch has at most maxItems items, in order of arrival', async () => {
  const { batcher, batches } = createSlow({ maxItems: 2 })
  const calls = ['a', 'b', 'c', 'd', 'e'].map((item) => batcher.add(item))
  for (let index = 0; index < 3; index++) {
    await turn()
    assert.equal(batches.length, index + 1, 'one batch at a time')
    batches[index]!.end()
    await turn()
  }
  await Promise.all(calls)
  assert.deepEqual(
    batches.map(({ items }) => items),
    [['a', 'b'], ['c', 'd'], ['e']],
  )
})

test('a batch can begin in a microtask', async () => {
  const { batcher, batches } = createSlow({ start: queueMicrotask })
  const calls = [batcher.add('a'), batcher.add('b')]
  await null
  assert.deepEqual(batches[0]!.items, ['a', 'b'])
  batches[0]!.end()
  await Promise.all(calls)
})

test('a failed batch rejects each of its calls, and the next batch begins', async () => {
  const { batcher, batches } = createSlow()
  const calls = Promise.allSettled([batcher.add('a'), batcher.add('b')])
  await turn()
  const next = batcher.add('c')
  batches[0]!.fail(new Error('disk full'))
  assert.deepEqual(
    (await calls).map((call) => call.status === 'rejected' && (call.reason as Error).message),
    ['disk full', 'disk full'],
  )
  await turn()
  batches[1]!.end()
  assert.equal(await next, 'C')
})

test('a run that throws synchronously also rejects the calls', async () => {
  const batcher = new Batcher<string, string>({
    run: () => {
      throw new Error('no')
    },
  })
  await assert.rejects(batcher.add('a'), /no/)
  assert.equal(batcher.isIdle, true)
})

test('after an error of one item each item is run alone', async () => {
  const ran: string[] = []
  const batcher = new Batcher<string, string>({
    isItemError: (error) => (error as Error).message === 'bad item',
    async run(items) {
      ran.push(items.join())
      if (items.includes('bad')) throw new Error('bad item')
      return items
    },
  })
  const calls = await Promise.allSettled(['a', 'bad', 'c'].map((item) => batcher.add(item)))
  assert.deepEqual(
    calls.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  assert.deepEqual(ran, ['a,bad,c', 'a', 'bad', 'c'])
})

test('equal items share a position while they wait, and not with a batch in flight', async () => {
  const { batcher, batches } = createSlow({ mergesEqual: true, maxInFlight: 2, maxItems: 2 })
  const calls = ['a', 'b', 'a', 'c'].map((item) => batcher.add(item))
  assert.equal(batcher.waitingCount, 3)
  await turn()
  calls.push(batcher.add('a'))
  await turn()
  assert.deepEqual(
    batches.map(({ items }) => items),
    [
      ['a', 'b'],
      ['c', 'a'],
    ],
  )
  for (const { end } of batches) end()
  assert.deepEqual(await Promise.all(calls), ['A', 'B', 'A', 'C', 'A'])
})

test('the batcher is idle when no item waits and no batch is in flight', async () => {
  const { batcher, batches } = createSlow()
  assert.equal(batcher.isIdle, true)
  const call = batcher.add('a')
  assert.equal(batcher.isIdle, false)
  await turn()
  assert.equal(batcher.isIdle, false)
  batches[0]!.end()
  await call
  assert.equal(batcher.isIdle, true)
})
