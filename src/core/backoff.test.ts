import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'vitest'
import { backoffMs, resolveBackoff } from './backoff.ts'

const plan = { baseMs: 2_000, factor: 2, maxMs: 3_600_000, jitter: 0.2 }

test('waits grow by the factor up to the maximum', () => {
  const middle = () => 0.5
  assert.deepEqual(
    [1, 2, 3, 11, 12, 1_000, 1_000_000].map((n) => backoffMs(plan, n, middle)),
    [2_000, 4_000, 8_000, 2_048_000, 3_600_000, 3_600_000, 3_600_000],
  )
})

test('a wait lies within its jitter, is finite and never exceeds the maximum', () => {
  const backoffs = fc.record({
    baseMs: fc.nat(1e6),
    factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
    maxMs: fc.nat(1e9),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(backoffs, fc.integer({ min: 1, max: 2_000 }), share, (backoff, n, random) => {
      const ms = backoffMs(backoff, n, () => random)
      const x = backoff.baseMs === 0 ? 0 : Math.min(backoff.maxMs, backoff.baseMs * backoff.factor ** (n - 1))
      assert.ok(
        ms >= x * (1 - backoff.jitter) - 1e-6 && ms <= Math.min(backoff.maxMs, x * (1 + backoff.jitter)),
      )
    }),
  )
})

test('a back-off is completed from its defaults, and refused when it is invalid', () => {
  assert.deepEqual(resolveBackoff('backoff', { factor: 3 }, plan), { ...plan, factor: 3 })
  assert.deepEqual(resolveBackoff('backoff', undefined, plan), plan)
  for (const bad of [
    { baseMs: -1 },
    { factor: 0.5 },
    { maxMs: Number.NaN },
    { jitter: 2 },
    { base: 1 },
    null,
  ]) {
    assert.throws(() => resolveBackoff('backoff', bad as object, plan), { code: 'invalid_argument' })
  }
})
