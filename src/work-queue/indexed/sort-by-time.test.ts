import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { sortByTime, type Timers } from './sort-by-time.ts'

/** Timers of key indexes 0, 1, 2…, which were set in another order than that of their key indexes. */
function timersAt(times: readonly number[]): { timers: Timers; orderOf: Float64Array } {
  return {
    timers: { dueAt: Float64Array.from(times), indexes: Uint32Array.from(times.keys()) },
    orderOf: Float64Array.from(times, (_, index) => (index * 7_919) % 1_000_003),
  }
}

function assertSorts(times: readonly number[]): void {
  const { timers, orderOf } = timersAt(times)
  const expected = [...times.keys()].sort((a, b) =>
    times[a] === times[b] ? orderOf[a]! - orderOf[b]! : times[a]! < times[b]! ? -1 : 1,
  )
  const sorted = sortByTime(timers, orderOf)
  assert.deepEqual([...sorted.indexes], expected)
  assert.deepEqual(
    [...sorted.dueAt],
    expected.map((index) => times[index]),
  )
}

const kinds = {
  even: fc.double({ min: 0, max: 3_600_000, noNaN: true }),
  few: fc.nat(3),
  any: fc.double({ noNaN: true }).map((time) => time + 0),
  skewed: fc.integer({ min: -1_000, max: 1_000 }).map((power) => 2 ** power),
  tiny: fc.nat(50).map((count) => 1e6 + count * Number.EPSILON * 2 ** 20),
  endless: fc.constantFrom(1, 2, Number.POSITIVE_INFINITY),
  widest: fc.constantFrom(-Number.MAX_VALUE, 0, Number.MAX_VALUE),
}

for (const [name, times] of Object.entries(kinds)) {
  test(`timers are sorted by time and then by the call that set them: ${name}`, () => {
    fc.assert(fc.property(fc.array(times, { maxLength: 400, size: 'max' }), assertSorts), { numRuns: 100 })
  })
}

test('thousands are sorted, whether their times lie evenly, crowd together or are one', () => {
  const count = 20_000
  let state = 42
  const random = (): number => {
    state = (state * 16_807) % 2_147_483_647
    return state / 2_147_483_647
  }
  const timesBy = (time: (at: number) => number): number[] =>
    Array.from({ length: count }, (_, at) => time(at))
  assertSorts(timesBy(() => random() * 3_600_000))
  assertSorts(timesBy(() => 5))
  assertSorts(timesBy(() => Math.floor(random() * 30)))
  assertSorts(timesBy(() => random() ** 40))
  assertSorts(timesBy((at) => (at === 0 ? 1e300 : random())))
  assertSorts(timesBy((at) => count - at))
})

test('a hundred thousand at one time, or all but one at the same end of a long span, take no squares of time', () => {
  const count = 150_000
  for (const last of [5, 1e300]) {
    const { timers, orderOf } = timersAt(new Array<number>(count).fill(5).with(count - 1, last))
    const startedAt = performance.now()
    const { indexes } = sortByTime(timers, orderOf)
    // By inserting alone it would be many seconds.
    assert.ok(performance.now() - startedAt < 2_000)
    for (let at = 2; at < count - 1; at++) assert.ok(orderOf[indexes[at - 1]!]! < orderOf[indexes[at]!]!)
  }
})
