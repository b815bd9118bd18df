import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { Waiting } from './waiting.ts'

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

const aSet = fc.record({
  key: fc.nat(300),
  dueAt: fc.nat(40),
  priority: fc.integer({ min: -2, max: 2 }),
  replace: fc.boolean(),
})
// Bursts, so that the heap grows far beyond its smallest room and shrinks again.
const aStep = fc.oneof(
  { weight: 3, arbitrary: fc.record({ sets: fc.array(aSet, { maxLength: 120, size: 'max' }) }) },
  { weight: 2, arbitrary: fc.record({ take: fc.array(fc.nat(300), { maxLength: 40 }) }) },
  { weight: 3, arbitrary: fc.record({ takeNext: fc.nat(200) }) },
)

test('delayed adds come out by due time and then by the call that set it, however many come and go', () => {
  let mostWaiting = 0
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), fc.boolean(), (steps, itemsAreKeys) => {
    const naive = new NaiveWaiting()
    const waiting = new Waiting<unknown>(itemsAreKeys)
    let version = 0
    const same = (
      actual: { item: unknown; priority: number; key: unknown } | undefined,
      expected?: Naive,
    ) => {
      assert.deepEqual(actual && { ...actual }, expected && pick(expected, itemsAreKeys))
    }
    for (const step of steps) {
      if ('sets' in step) {
        for (const { key, dueAt, priority, replace } of step.sets) {
          const item = `${key}.${++version}`
          const fresh = waiting.set(key, itemsAreKeys ? key : item, dueAt, priority, replace)
          assert.equal(fresh, naive.set(key, item, dueAt, priority, replace))
        }
      } else if ('take' in step) {
        for (const key of step.take) same(waiting.take(key), naive.take(key))
      } else {
        for (let left = Math.min(step.takeNext, naive.adds.length); left > 0; left--) {
          same(waiting.takeNext(), naive.takeNext())
        }
      }
      mostWaiting = Math.max(mostWaiting, naive.adds.length)
      assert.equal(waiting.size, naive.adds.length)
      for (const { key, dueAt, priority } of naive.adds) {
        assert.equal(waiting.dueAt(key), dueAt)
        assert.equal(waiting.priorityOf(key), priority)
      }
      const next = Math.min(...naive.adds.map(({ dueAt }) => dueAt))
      assert.equal(waiting.nextDueAt, next)
    }
    waiting.clear()
    assert.deepEqual([waiting.size, waiting.nextDueAt], [0, Number.POSITIVE_INFINITY])
  })
  fc.assert(property, { numRuns: 150 })
  assert.ok(
    mostWaiting > 128,
    `the walk was to reach far beyond the smallest heap, and reached ${mostWaiting}`,
  )
})

function pick({ key, item, priority }: Naive, itemsAreKeys: boolean) {
  return { key, item: itemsAreKeys ? key : item, priority }
}

test('room that a burst needed is given back', async () => {
  const waiting = new Waiting<number>(true)
  const before = await heldBytes()
  for (let key = 0; key < 200_000; key++) waiting.set(key, key, key % 1_000, 0, false)
  const atPeak = await heldBytes()
  while (waiting.size > 10) waiting.takeNext()
  const after = await heldBytes()
  assert.ok(atPeak - before > 8_000_000, `a burst of 200,000 took ${atPeak - before} bytes`)
  assert.ok(after - before < 1_000_000, `ten that still wait take ${after - before} bytes`)
  assert.equal(waiting.size, 10)
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
