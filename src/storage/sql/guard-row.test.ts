import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeGuardRow, type GuardRow, isToken, judgeGuard, nextClaim } from './guard-row.ts'

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
const token = '1000000.0123456789abcdef'

test('a lease is over at its end, and not before', () => {
  assert.deepEqual(judgeGuard(row, null, 999), { status: 'running', leaseEndsInMs: 1 })
  assert.equal(judgeGuard(row, null, 1_000), undefined)
  assert.deepEqual(judgeGuard({ ...row, mode: 'at-most-once' }, null, 1_000), { status: 'stuck' })
})

test('a claim that ran out is remembered as a failed one for as long as it would be kept', () => {
  for (const stored of [row, textual]) {
    assert.deepEqual(nextClaim(stored, 1_499), { tokenNo: 1_499_000, attempt: 3 })
    assert.deepEqual(nextClaim(stored, 1_500), { tokenNo: 1_500_000, attempt: 1 })
    const { status, endsAt } = decodeGuardRow(stored, 1_499)
    assert.deepEqual([status, endsAt], ['failed', 1_500])
  }
})

test('the number of a claim rises though the clock goes back', () => {
  assert.deepEqual(nextClaim({ ...row, status: 'failed' }, 1), { tokenNo: 1_000_001, attempt: 3 })
})

test('a guard has one token, and no other text matches it', () => {
  for (const stored of [row, textual]) {
    assert.equal(isToken(stored, token), true)
    for (const other of ['', '1000000', '1000001.0123456789abcdef', '1000000.0123456789abcdee'])
      assert.equal(isToken(stored, other), false)
  }
})
