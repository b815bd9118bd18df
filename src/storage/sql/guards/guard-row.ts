import type { GuardMode, GuardRecord, GuardStanding } from '../../../once/guard-store.ts'
import { encodeToken } from '../../token.ts'

/**
 * A guard's row as the SQL engines keep it, and what it stands for at a moment of the store's clock. Numbers may come as
 * numbers or as decimal text, as drivers give them. `ends_at` is the end of the lease while it is running, and the time
 * until which it is kept once it is done or failed.
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

/** How a key stands to a claim with this fingerprint; undefined: it is free. */
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

/** Until when a row is known of: a claim that ran out failed at that instant, and is kept as long as one that said so. */
function keptUntil(row: Pick<GuardRow, 'status' | 'keep_ms' | 'ends_at'>): number {
  return Number(row.ends_at) + (row.status === 'running' ? Number(row.keep_ms) : 0)
}

export function encodeGuardToken(tokenNo: number, nonce: string): string {
  return encodeToken({ leaseNo: String(tokenNo), nonce })
}

/** For people. The row must be one that is known of: stuck, or not past `keptUntil`. */
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
