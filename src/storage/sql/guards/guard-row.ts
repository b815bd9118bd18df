import type { GuardMode, GuardRecord, GuardStanding } from '../../../once/guard-store.ts'
import { encodeToken } from '../../token.ts'

/**
 * A guard's row in the SQL engines, and its meaning at a moment of the store's clock. Drivers give numbers as numbers
 * or as decimal text. `ends_at` is the end of the lease while the guard runs, and the end of its retention after it is
 * done or failed.
 */
export interface GuardRow {
  readonly guard_key: string
  readonly status: string
  readonly mode: string
  readonly attempt: number | string
  readonly token_no: number | string
  readonly token_nonce: string
  readonly fingerprint: string | null
  readonly result: string | null
  readonly claimed_at: number | string
  readonly keep_ms: number | string
  readonly ends_at: number | string
}

/** The standing of a key for a claim with this fingerprint. Undefined: the key is free. */
export function judgeGuard(
  row: Pick<GuardRow, 'status' | 'mode' | 'fingerprint' | 'result' | 'ends_at'> | undefined,
  fingerprint: string | null,
  now: number,
): GuardStanding | undefined {
  if (row === undefined || row.status === 'failed') return undefined
  const restMs = Number(row.ends_at) - now
  const isStuck = row.status === 'running' && restMs <= 0 && row.mode === 'at-most-once'
  if (restMs <= 0 && !isStuck) return undefined
  if (row.fingerprint !== fingerprint) return { status: 'mismatch' }
  if (isStuck) return { status: 'stuck' }
  return row.status === 'done'
    ? { status: 'done', result: row.result }
    : { status: 'running', leaseEndsInMs: restMs }
}

/**
 * The end of a row's retention. An expired claim failed at its expiry, and is kept as long as a claim that reported a
 * failure.
 */
function keptUntil(row: Pick<GuardRow, 'status' | 'keep_ms' | 'ends_at'>): number {
  return Number(row.ends_at) + (row.status === 'running' ? Number(row.keep_ms) : 0)
}

export function encodeGuardToken(tokenNo: number, nonce: string): string {
  return encodeToken({ leaseNo: String(tokenNo), nonce })
}

/** Decodes a row for people. The row must be stuck, or not past `keptUntil`. */
export function decodeGuardRow(
  row: Pick<GuardRow, 'guard_key' | 'status' | 'mode' | 'attempt' | 'claimed_at' | 'keep_ms' | 'ends_at'>,
  now: number,
): GuardRecord {
  const same = {
    key: row.guard_key,
    mode: row.mode as GuardMode,
    attempt: Number(row.attempt),
    claimedAt: Number(row.claimed_at),
  }
  const endsAt = Number(row.ends_at)
  if (row.status !== 'running' || endsAt > now)
    return { ...same, status: row.status as GuardRecord['status'], endsAt }
  return row.mode === 'at-most-once'
    ? { ...same, status: 'stuck', endsAt: null }
    : { ...same, status: 'failed', endsAt: keptUntil(row) }
}
