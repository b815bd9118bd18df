import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { Waiting } from './delayed-items.ts'
import { Seats } from './key-indexes.ts'

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

/** Waiting adds by key, over seats that are numbered anew whenever there are few left. */
class Seated {
  readonly seats: Seats = new Seats(true, 16)
  readonly waiting: Waiting<string> = new Waiting()
  renumberCount = 0
  /** Objects, because the seat of an object is given up at once. */
  readonly #keys = new Map<number, { key: number }>()

  seatOf(key: number): number | undefined {
    return this.seats.find(this.#keyOf(key))
  }

  set(key: number, item: string, dueAt: number, priority: number, replace: boolean): boolean {
    const seat = this.seats.take(this.#keyOf(key))
    const isWaiting = this.waiting.has(seat)
    if (isWaiting) this.waiting.merge(seat, item, dueAt, priority, replace)
    else this.waiting.add(seat, item, dueAt, priority)
    return !isWaiting
  }

  take(key: number): Omit<Naive, 'dueAt' | 'order'> | undefined {
    const seat = this.seatOf(key)
    if (seat === undefined) return undefined
    const held = this.seats.keyAt(seat) as { key: number }
    const taken = {
      key: held.key,
      item: this.waiting.item(seat),
      priority: this.waiting.priority(seat),
    }
    this.waiting.remove(seat)
    this.seats.leave(seat, held)
    if (this.seats.sparse) {
      this.waiting.renumber(this.seats.renumber())
      this.renumberCount++
    }
    return taken
  }

  takeNext(): object | undefined {
    return this.take((this.seats.keyAt(this.waiting.nextSeat) as { key: number }).key)
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
// Bursts, so that there are many seats and then few.
const aStep = fc.oneof(
  { weight: 3, arbitrary: fc.record({ sets: fc.array(aSet, { maxLength: 120, size: 'max' }) }) },
  { weight: 2, arbitrary: fc.record({ take: fc.array(fc.nat(300), { maxLength: 40 }) }) },
  { weight: 3, arbitrary: fc.record({ takeNext: fc.nat(200) }) },
  { weight: 3, arbitrary: fc.record({ gather: fc.integer({ min: 10, max: 40 }) }) },
)

test('delayed adds come out by due time and then by the call that set it, however many come and go', () => {
  let mostWaiting = 0
  let gatherCount = 0
  let renumberCount = 0
  const property = fc.property(fc.array(aStep, { maxLength: 30 }), (steps) => {
    const naive = new NaiveWaiting()
    const seated = new Seated()
    const { waiting, seats } = seated
    let version = 0
    const same = (actual: object | undefined, expected?: Naive) =>
      assert.deepEqual(actual, expected && pick(expected))
    for (const step of steps) {
      if ('sets' in step) {
        for (const { key, dueAt, priority, replace } of step.sets) {
          const item = `${key}.${++version}`
          const fresh = seated.set(key, item, dueAt, priority, replace)
          assert.equal(fresh, naive.set(key, item, dueAt, priority, replace))
        }
      } else if ('take' in step) {
        for (const key of step.take) same(seated.take(key), naive.take(key))
      } else if ('gather' in step) {
        const dueCount = naive.adds.filter(({ dueAt }) => dueAt <= step.gather).length
        if (naive.adds.length >= 64 && dueCount * 4 >= naive.adds.length) gatherCount++
        waiting.gather(step.gather)
      } else {
        for (let left = Math.min(step.takeNext, naive.adds.length); left > 0; left--) {
          same(seated.takeNext(), naive.takeNext())
        }
      }
      mostWaiting = Math.max(mostWaiting, naive.adds.length)
      assert.deepEqual([waiting.size, seats.size], [naive.adds.length, naive.adds.length])
      for (const { key, dueAt, priority } of naive.adds) {
        const seat = seated.seatOf(key) as number
        assert.deepEqual([waiting.dueAt(seat), waiting.priority(seat)], [dueAt, priority])
      }
      assert.equal(waiting.nextDueAt, Math.min(...naive.adds.map(({ dueAt }) => dueAt)))
    }
    renumberCount += seated.renumberCount
    // As when a queue is shut down: in any order, but each once.
    for (; waiting.size > 0; waiting.remove(waiting.lastSeat)) assert.ok(waiting.has(waiting.lastSeat))
    for (const { key } of naive.adds) assert.equal(waiting.has(seated.seatOf(key) as number), false)
  })
  fc.assert(property, { numRuns: 150 })
  assert.ok(mostWaiting > 96, `many were to wait at a time, and at most ${mostWaiting} did`)
  assert.ok(
    gatherCount > 4,
    `many were to be gathered more than once or twice, and were ${gatherCount} times`,
  )
  assert.ok(renumberCount > 0, `seats were to be renumbered, and were ${renumberCount} times`)
})

function pick({ key, item, priority }: Naive): object {
  return { key, item, priority }
}

test('room that a burst needed is given back', async () => {
  const seated = new Seated()
  const before = await heldBytes()
  for (let key = 0; key < 200_000; key++) seated.set(key, 'x', key % 1_000, 0, false)
  const atPeak = await heldBytes()
  for (let left = 200_000; left > 10; left--) seated.takeNext()
  const after = await heldBytes()
  assert.ok(atPeak - before > 8_000_000, `a burst of 200,000 took ${atPeak - before} bytes`)
  assert.ok(
    atPeak - after > 8_000_000,
    `of ${atPeak - before} bytes ${after - before} are still held for ten that wait`,
  )
  assert.equal(seated.waiting.size, 10)
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
