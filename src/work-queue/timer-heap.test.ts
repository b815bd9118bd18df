import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { KeyIndexes } from './key-indexes.ts'
import { DelayedItems } from './timer-heap.ts'

interface Naive {
  readonly key: number
  item: string
  dueAt: number
  order: number
  priority: number
}

/** A list that is searched and sorted anew each time. */
class NaiveWaiting {
  adds: Naive[] = []
  #lastOrder = 0

  set(key: number, item: string, dueAt: number, priority: number, replace: boolean): boolean {
    const known = this.adds.find((add) => add.key === key)
    if (!known) {
      this.adds.push({ key, item, dueAt, priority, order: ++this.#lastOrder })
      return true
    }
    known.item = item
    known.priority = Math.max(known.priority, priority)
    if (replace || dueAt < known.dueAt) Object.assign(known, { dueAt, order: ++this.#lastOrder })
    return false
  }

  take(key: number | undefined): Naive | undefined {
    const taken = this.adds.find((add) => add.key === key)
    this.adds = this.adds.filter((add) => add !== taken)
    return taken
  }

  takeNext(): Naive | undefined {
    return this.take(this.adds.toSorted((a, b) => a.dueAt - b.dueAt || a.order - b.order)[0]?.key)
  }
}

/** Waiting adds by key, over key indexes that are renumbered whenever there are few left. */
class IndexedAdds {
  readonly keyIndexes: KeyIndexes = new KeyIndexes(true, 16)
  readonly waiting: DelayedItems<string> = new DelayedItems()
  renumberCount = 0
  /** Objects, because the key index of an object is given up at once. */
  readonly #keys = new Map<number, { key: number }>()

  indexOf(key: number): number | undefined {
    return this.keyIndexes.find(this.#keyOf(key))
  }

  set(key: number, item: string, dueAt: number, priority: number, replace: boolean): boolean {
    const index = this.keyIndexes.take(this.#keyOf(key))
    const isWaiting = this.waiting.has(index)
    if (isWaiting) this.waiting.merge(index, item, dueAt, priority, replace)
    else this.waiting.add(index, item, dueAt, priority)
    return !isWaiting
  }

  take(key: number): Omit<Naive, 'dueAt' | 'order'> | undefined {
    const index = this.indexOf(key)
    if (index === undefined) return undefined
    const held = this.keyIndexes.keyAt(index) as { key: number }
    const taken = {
      key: held.key,
      item: this.waiting.item(index),
      priority: this.waiting.priority(index),
    }
    this.waiting.remove(index)
    this.keyIndexes.leave(index, held)
    if (this.keyIndexes.isSparse) {
      this.waiting.renumber(this.keyIndexes.renumber())
      this.renumberCount++
    }
    return taken
  }

  takeNext(): object | undefined {
    return this.take((this.keyIndexes.keyAt(this.waiting.nextIndex) as { key: number }).key)
  }

  #keyOf(key: number): { key: number } {
    const known = this.#keys.get(key) ?? { key }
    this.#keys.set(key, known)
    return known
  }
}

const aSet = fc.record({
  key: fc.nat(300),
  dueAt: fc.nat(40),
  priority: fc.integer({ min: -2, max: 2 }),
  replace: fc.boolean(),
})
// Bursts, so that there are many key indexes and then few.
const aStep = fc.oneof(
  { weight: 3, arbitrary: fc.record({ sets: fc.array(aSet, { maxLength: 120, size: 'max' }) }) },
  { weight: 2, arbitrary: fc.record({ take: fc.array(fc.nat(300), { maxLength: 40 }) }) },
  { weight: 3, arbitrary: fc.record({ takeNext: fc.nat(200) }) },
)

test('delayed adds come out by due time and then by call, however many come and go', () => {
  let mostWaiting = 0
  let renumberCount = 0
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), (steps) => {
    const naive = new NaiveWaiting()
    const indexed = new IndexedAdds()
    const { waiting, keyIndexes } = indexed
    let version = 0
    const same = (actual: object | undefined, expected?: Naive) =>
      assert.deepEqual(actual, expected && pick(expected))
    for (const step of steps) {
      if ('sets' in step) {
        for (const { key, dueAt, priority, replace } of step.sets) {
          const item = `${key}.${++version}`
          const fresh = indexed.set(key, item, dueAt, priority, replace)
          assert.equal(fresh, naive.set(key, item, dueAt, priority, replace))
        }
      } else if ('take' in step) {
        for (const key of step.take) same(indexed.take(key), naive.take(key))
      } else {
        for (let left = Math.min(step.takeNext, naive.adds.length); left > 0; left--) {
          same(indexed.takeNext(), naive.takeNext())
        }
      }
      mostWaiting = Math.max(mostWaiting, naive.adds.length)
      assert.deepEqual([waiting.size, keyIndexes.size], [naive.adds.length, naive.adds.length])
      for (const { key, dueAt, priority } of naive.adds) {
        const index = indexed.indexOf(key) as number
        assert.deepEqual([waiting.dueAt(index), waiting.priority(index)], [dueAt, priority])
      }
      assert.equal(waiting.nextDueAt, Math.min(...naive.adds.map(({ dueAt }) => dueAt)))
    }
    renumberCount += indexed.renumberCount
    // As when a queue is shut down: in any order, but each once.
    for (; waiting.size > 0; waiting.remove(waiting.lastIndex)) assert.ok(waiting.has(waiting.lastIndex))
    for (const { key } of naive.adds) assert.equal(waiting.has(indexed.indexOf(key) as number), false)
  })
  fc.assert(property, { numRuns: 150 })
  assert.ok(mostWaiting > 96, `many were to wait at a time, and at most ${mostWaiting} did`)
  assert.ok(renumberCount > 0, `indexes were to be renumbered, and were ${renumberCount} times`)
})

function pick({ key, item, priority }: Naive): object {
  return { key, item, priority }
}

test('the memory of a burst is released', async () => {
  const indexed = new IndexedAdds()
  const before = await heldBytes()
  for (let key = 0; key < 200_000; key++) indexed.set(key, 'x', key % 1_000, 0, false)
  const atPeak = await heldBytes()
  for (let left = 200_000; left > 10; left--) indexed.takeNext()
  const after = await heldBytes()
  assert.ok(atPeak - before > 8_000_000, `a burst of 200,000 took ${atPeak - before} bytes`)
  assert.ok(
    atPeak - after > 8_000_000,
    `of ${atPeak - before} bytes ${after - before} are still held for ten that wait`,
  )
  assert.equal(indexed.waiting.size, 10)
})

/** Twice, because the memory of typed arrays is given back in the background. */
async function heldBytes(): Promise<number> {
  for (let round = 0; round < 2; round++) {
    globalThis.gc?.()
    await new Promise(setImmediate)
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
