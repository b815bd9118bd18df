import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeGuardRow, type GuardRow, judgeGuard } from './guard-row.ts'

const row: GuardRow = {
  guard_key: 'report',
  status: 'running',
  mode: 'at-least-once',
  attempt: 2,
  token_no: 1_000_000,
  token_nonce: '0123456789abcdef',
  fingerprint: null,
  result: null,
  claimed_at: 900,
  keep_ms: 500,
  ends_at: 1_000,
}
/** As a driver gives it that keeps whole numbers as text. */
const textual: GuardRow = { ...row, attempt: '2', token_no: '1000000', keep_ms: '500', ends_at: '1000' }

test('a lease is over at its end, and not before', () => {
  assert.deepEqual(judgeGuard(row, null, 999), { status: 'running', leaseEndsInMs: 1 })
  assert.equal(judgeGuard(row, null, 1_000), undefined)
  assert.deepEqual(judgeGuard({ ...row, mode: 'at-most-once' }, null, 1_000), { status: 'stuck' })
})

test('an expired claim is remembered like a failed one, for as long as that would be kept', () => {
  for (const stored of [row, textual]) {
    const { status, endsAt } = decodeGuardRow(stored, 1_499)
    assert.deepEqual([status, endsAt], ['failed', 1_500])
  }
})
