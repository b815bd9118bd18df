import type { GuardAsk, GuardStanding } from '../../../once/guard-store.ts'
import { judgeGuard } from '../../sql/guard-row.ts'
import { createNonce, encodeToken } from '../../token.ts'
import type { Statement } from '../connection/calls.ts'
import { movingMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'
import { chunkBySize } from '../jobs/settle.ts'
import { inKeyOrder } from './guard-order.ts'

/**
 * Claiming: all keys in one statement. Each key brings a nonce of its own. The first assignment alone asks whether the
 * key is free, and puts the nonce in; all others only ask whose nonce is there, so a row is taken as a whole or not at
 * all, though the clock moves on in between. What the statement gives back is the row as it stands then: with our nonce
 * it is ours, and else it tells why not. A key twice in one call meets its own row.
 */
export interface Claiming<Ask> {
  readonly statement: Statement
  /** In the order of the statement's rows; `index` is its place in the call. */
  readonly asks: readonly (Ask & { readonly index: number; readonly nonce: string })[]
}

type Key = Pick<GuardAsk, 'space' | 'key'>

/** As many statements as packets are needed; `status` and the end of it are what a claim that takes writes. */
export function encodeClaims<Ask extends Key & Partial<GuardAsk> & { readonly keepMs: number }>(
  { tables, namespace, packetBytes }: Store,
  asks: readonly Ask[],
  status: 'running' | 'done',
): readonly Claiming<Ask>[] {
  const sorted = asks.map((ask, index) => ({ ...ask, index, nonce: createNonce() })).sort(inKeyOrder)
  return chunkBySize(sorted, sizeOf, packetBytes).map((chunk) => {
    const rows = chunk.map((ask) => [
      ...[namespace, ask.space, ask.key, status, ask.mode ?? 'at-least-once', ask.nonce],
      ...[ask.fingerprint ?? null, ask.keepMs, ask.leaseMs ?? ask.keepMs],
    ])
    // A column that was written already can be used by those after it.
    const row = `(?, ?, ?, ?, ?, 1, ${movingMicros}, ?, ?, ${movingMs}, ?, claimed_at + ?)`
    const sql = `INSERT INTO ${tables.guard} (namespace, space, guard_key, status, mode, attempt, token_no, token_nonce,
        fingerprint, claimed_at, keep_ms, ends_at)
      VALUES ${rows.map(() => row).join(',\n')}
      ON DUPLICATE KEY UPDATE
        token_nonce = IF(status = 'failed' OR (ends_at <= ${movingMs} AND (status = 'done' OR mode = 'at-least-once')),
          VALUES(token_nonce), token_nonce),
        token_no = IF(${took}, GREATEST(token_no + 1, VALUES(token_no)), token_no),
        attempt = IF(${took}, IF(status <> 'done' AND ends_at + IF(status = 'running', keep_ms, 0) > ${movingMs},
          attempt + 1, 1), attempt),
        claimed_at = IF(${took}, ${movingMs}, claimed_at),
        ends_at = IF(${took}, claimed_at + VALUES(ends_at) - VALUES(claimed_at), ends_at),
        ${given(['mode', 'fingerprint', 'result', 'keep_ms', 'status'])}
      RETURNING token_no, token_nonce, attempt, status, mode, CAST(fingerprint AS BINARY) AS fingerprint,
        CAST(result AS BINARY) AS result, ends_at, ${movingMs} AS now`
    return { statement: [sql, rows.flat()], asks: chunk }
  })
}

const movingMicros = `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))`
const took = 'token_nonce = VALUES(token_nonce)'

function given(columns: readonly string[]): string {
  return columns.map((column) => `${column} = IF(${took}, VALUES(${column}), ${column})`).join(', ')
}

/** No less than a quarter of what it has when it is sent, also where texts go as hexadecimal digits. */
function sizeOf({ key, fingerprint }: Key & Partial<GuardAsk>): number {
  return 2 * (key.length + (fingerprint?.length ?? 0)) + 600
}

/** What such a statement gave for a key. Text comes as bytes, whatever character set the session has. */
export interface ClaimedRow {
  readonly token_no: number | string
  readonly token_nonce: string
  readonly attempt: number | string
  readonly status: string
  readonly mode: string
  readonly fingerprint: Buffer | null
  readonly result: Buffer | null
  readonly ends_at: number | string
  readonly now: number | string
}

export function decodeStanding(
  ask: { readonly nonce: string; readonly fingerprint: string | null },
  row: ClaimedRow,
): GuardStanding {
  if (row.token_nonce === ask.nonce) {
    const token = encodeToken({ leaseNo: String(row.token_no), nonce: ask.nonce })
    return { status: 'run', token, attempt: Number(row.attempt) }
  }
  const text = (bytes: Buffer | null) => bytes?.toString() ?? null
  const stored = { ...row, fingerprint: text(row.fingerprint), result: text(row.result) }
  // It was judged a moment before `now`, and by that it was not free: not even one whose time has just come.
  const isLapsing = row.mode === 'at-least-once' || row.status === 'done'
  const now = isLapsing ? Math.min(Number(row.now), Number(row.ends_at) - 1) : Number(row.now)
  return judgeGuard(stored, ask.fingerprint, now)!
}
