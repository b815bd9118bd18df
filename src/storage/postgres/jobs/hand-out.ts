import type { ClaimedRecord } from '../../../jobs/index.ts'
import { encodeToken } from '../../token.ts'
import { nowMs } from '../connection/statement.ts'

/**
 * Handing out jobs whose rows are locked: the end of every statement that claims, and how its answer is read. The rows are locked, so
 * they cannot move, and are found by their places.
 */
export interface HandOut {
  /** A table `g` with the places (`ctid`) of the locked rows, and what the expressions below need. */
  readonly places: string
  readonly nonce: string
  readonly workerId: string
  readonly startedAt: string
  readonly leaseMs: string
  /** Which of several claimers gets the row, counted from 1. */
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
 * The columns of a row `t` that was taken; $1 is the namespace. What most jobs do not have is one column: a column for each would
 * cost every row a little.
 */
export function claimedColumns(s: string): string {
  const isCancelled = `t.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1)`
  return `t.id, t.queue, t.kind, t.payload, t.priority, t.attempt, t.max_attempts, t.hand_back_count, t.snooze_count,
       t.run_at, t.created_at, t.started_at, t.lease_no, t.lease_ends_at, t.claimer,
       CASE WHEN num_nonnulls(t.unique_key, t.backoff, t.timeout_ms, t.error, t.meta) > 0 OR ${isCancelled}
            THEN json_build_array(t.unique_key, t.backoff, t.timeout_ms, t.error, t.meta, ${isCancelled})::text END`
}

/** A row of the answer, by position: objects with twenty keys cost more than the rest of a claim. */
export type ClaimedRow = readonly (string | number | boolean | null)[]

/** The number of the claimer in a row of the answer. */
export function claimerOf(row: ClaimedRow): number {
  return row[14] as number
}

/** A unique key, backoff, time-out, error and meta, and whether a cancellation was requested. */
type RareColumns = readonly [
  string | null,
  string | null,
  number | null,
  string | null,
  string | null,
  boolean,
]
const noneRare: RareColumns = [null, null, null, null, null, false]

export function decodeClaimedRow(row: ClaimedRow, nonce: string, workerId: string): ClaimedRecord {
  const rare = row[15] === null ? noneRare : (JSON.parse(row[15] as string) as RareColumns)
  return {
    id: row[0] as string,
    queue: row[1] as string,
    kind: row[2] as string,
    payload: row[3] as string,
    priority: row[4] as number,
    uniqueKey: rare[0],
    state: 'running',
    attempt: row[5] as number,
    maxAttempts: row[6] as number,
    handBackCount: row[7] as number,
    snoozeCount: row[8] as number,
    runAt: Number(row[9]),
    createdAt: Number(row[10]),
    startedAt: Number(row[11]),
    finishedAt: null,
    workerId,
    leaseEndsAt: Number(row[13]),
    backoff: rare[1],
    timeoutMs: rare[2],
    meta: rare[4],
    result: null,
    error: rare[3],
    cancelRequested: rare[5],
    cancelIgnored: false,
    token: encodeToken({ leaseNo: String(row[12]), nonce }),
  }
}

/** The order of claims, for rows of `job_queue p`. */
export const order = '(-p.priority::bigint), p.run_at, p.id'

/** The order of claims; RETURNING promises none. */
export function byOrder(a: InOrder, b: InOrder): number {
  return b.priority - a.priority || a.runAt - b.runAt || (a.id < b.id ? -1 : 1)
}

/** What the order of claims goes by. */
export type InOrder = Pick<ClaimedRecord, 'priority' | 'runAt' | 'id'>
