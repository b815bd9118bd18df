import type { ClaimedRecord } from '../../../jobs/index.ts'
import { encodeToken } from '../../token.ts'
import { nowMs } from '../connection/statement.ts'

/**
 * Leases jobs whose rows are locked. Every statement that claims ends with this part; the decoders of its rows are here
 * too. A locked row cannot move, so its `ctid` finds it.
 */
export interface HandOut {
  /** A table `g` with the `ctid` of each locked row as `place`, and the columns that the expressions below use. */
  readonly places: string
  readonly nonce: string
  readonly workerId: string
  readonly startedAt: string
  readonly leaseMs: string
  /** The number of the claim that gets the row, counted from 1. */
  readonly claimer: string
}

/** A CTE `taken`: the rows with their new lease. */
export function handOut(
  s: string,
  { places, nonce, workerId, startedAt, leaseMs, claimer }: HandOut,
): string {
  return `taken AS (
  UPDATE ${s}.job_queue p
  SET state = 'running', attempt = p.attempt + 1, started_at = ${startedAt}, updated_at = ${startedAt},
    worker_id = ${workerId}, lease_no = p.lease_no + 1, lease_nonce = ${nonce}, lease_ends_at = (SELECT ${nowMs}) + ${leaseMs}::bigint
  FROM ${places}
  WHERE p.ctid = g.place
  RETURNING p.*, ${claimer} AS claimer
)`
}

/**
 * The columns of a claimed row `t`; $1 is the namespace. Values that most jobs lack share one column, because a column
 * for each would make every row slower.
 */
export function claimedColumns(s: string): string {
  const isCancelled = `t.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1)`
  return `t.id, t.queue, t.kind, t.payload, t.attempt, t.max_attempts, t.run_at, t.created_at, t.started_at, t.lease_no,
       t.lease_ends_at, t.claimer,
       CASE WHEN num_nonnulls(t.unique_key, t.backoff, t.timeout_ms, t.error, t.meta) > 0 OR t.priority <> 0
              OR t.hand_back_count <> 0 OR t.snooze_count <> 0 OR ${isCancelled}
            THEN json_build_array(t.priority, t.hand_back_count, t.snooze_count, t.unique_key, t.backoff, t.timeout_ms, t.error,
              t.meta, ${isCancelled})::text END`
}

/** A row of the answer as an array of texts: objects with twenty keys cost more than the rest of a claim. */
export type ClaimedRow = readonly (string | null)[]

/** The number of columns of a row. */
export const claimedCount = 13

/** The number of the claim that gets this row, counted from 1. */
export function claimerOf(row: ClaimedRow): number {
  return Number(row[11])
}

/** Values that most jobs lack. */
type RareColumns = readonly [
  priority: number,
  handBackCount: number,
  snoozeCount: number,
  uniqueKey: string | null,
  backoff: string | null,
  timeoutMs: number | null,
  error: string | null,
  meta: string | null,
  cancelRequested: boolean,
]
const noneRare: RareColumns = [0, 0, 0, null, null, null, null, null, false]

export function decodeClaimedRow(row: ClaimedRow, nonce: string, workerId: string): ClaimedRecord {
  const rare = row[12] ? (JSON.parse(row[12]) as RareColumns) : noneRare
  const [priority, handBackCount, snoozeCount, uniqueKey, backoff, timeoutMs, error, meta, cancelRequested] =
    rare
  return {
    id: row[0]!,
    queue: row[1]!,
    kind: row[2]!,
    payload: row[3]!,
    priority,
    uniqueKey,
    state: 'running',
    attempt: Number(row[4]),
    maxAttempts: Number(row[5]),
    handBackCount,
    snoozeCount,
    runAt: Number(row[6]),
    createdAt: Number(row[7]),
    startedAt: Number(row[8]),
    finishedAt: null,
    workerId,
    leaseEndsAt: Number(row[10]),
    backoff,
    timeoutMs,
    meta,
    result: null,
    error,
    cancelRequested,
    cancelIgnored: false,
    token: encodeToken({ leaseNo: row[9]!, nonce }),
  }
}

/** The order of claims in SQL, for rows of `job_queue p`. */
export const order = '(-p.priority::bigint), p.run_at, p.id'

/** The order of claims. RETURNING does not guarantee an order. */
export function byOrder(a: InOrder, b: InOrder): number {
  return b.priority - a.priority || a.runAt - b.runAt || (a.id < b.id ? -1 : 1)
}

/** The fields that decide the order of claims. */
export type InOrder = Pick<ClaimedRecord, 'priority' | 'runAt' | 'id'>
