import assert from 'node:assert/strict'
import { test } from 'vitest'
import { Histogram } from './histogram.ts'

const shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1]

function exact(sorted: readonly number[], share: number): number {
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1]!
}

test('a percentile is within 2 % of the exact one, from microseconds to hours', () => {
  // Logarithmic over ten orders of magnitude, from a fixed generator, so that it is the same every time.
  let seed = 1
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const values = Array.from({ length: 20_000 }, () => 10 ** (random() * 9.5 - 2.7))
  const histogram = new Histogram()
  for (const value of values) histogram.record(value)
  const sorted = values.toSorted((one, other) => one - other)

  for (const share of shares) {
    const expected = exact(sorted, share)
    const got = histogram.percentile(share)
    assert.ok(Math.abs(got - expected) <= expected * 0.02 + 0.0001, `${share}: ${got} instead of ${expected}`)
  }
})

test('equal values are reported exactly', () => {
  const histogram = new Histogram()
  for (let count = 0; count < 1_000; count++) histogram.record(50)

  assert.deepEqual([histogram.count, histogram.sumMs, histogram.maxMs], [1_000, 50_000, 50])
  assert.ok(Math.abs(histogram.percentile(0.5) - 50) < 1)
  assert.ok(histogram.percentile(1) <= 50)
})

test('invalid values do no harm: NaN counts as 0, and infinity as the longest', () => {
  const histogram = new Histogram()
  for (const odd of [Number.NaN, -1, 0, undefined as unknown as number]) histogram.record(odd)
  histogram.record(1e12)

  assert.equal(histogram.count, 5)
  assert.equal(histogram.percentile(0.5), 0)
  assert.ok(histogram.percentile(1) > 6_000_000)
})

test('the counts of the buckets rise, as Prometheus requires, and end at the last bound', () => {
  const histogram = new Histogram()
  for (const value of [0.05, 0.4, 0.4, 4, 40, 400]) histogram.record(value)

  assert.deepEqual(histogram.countsWithin([0.1, 0.5, 1, 10, 100]), [1, 3, 3, 4, 5])
})
