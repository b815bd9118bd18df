import type { ClaimedRecord, ClaimRequest } from '../../../jobs/index.ts'
import { encodeToken } from '../../token.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Position } from '../jobs/cursor.ts'

/**
 * Claiming: up to `limit` rows leave `job_pending` and become one row of `job_lease`, in one statement. What falls due
 * is made ready by a statement sent just ahead of it, so that a due job of high priority is never overtaken. While a
 * lease that ran out could be taken back, nothing is claimed: its jobs may go first. Queues with limits are left out here,
 * as those that are paused: limit-claimer.ts claims from them.
 *
 * Mostly nothing fell due, nothing ran out and nothing has limits. The straight claims see for themselves that it is so,
 * and then they are all there is to send; else they take nothing and say so.
 */
export interface ClaimStatements {
  /** Makes ready what fell due; answers which leases ran out, but for those it is told of, and which queues have limits. */
  readonly promote: Statement
  readonly one: Statement
  readonly many: Statement
  readonly straightOne: Statement
  readonly straightMany: Statement
}

export interface PromoteRow {
  /** Something fell due and is ready now. */
  readonly moved: boolean
  /** Lease numbers, as decimal text. */
  readonly lapsed: readonly string[]
  /** Those of the queues that have limits and are not paused. */
  readonly limited: readonly string[]
}

/** A row of the answer, by position: objects with twenty keys cost more than the rest of a claim. */
export type ClaimRow = readonly (string | number | boolean | null)[]

export interface Claimed {
  readonly leaseNo: string
  /** In the order of the lease's row. */
  readonly jobs: readonly ClaimedRecord[]
  readonly tookMs: number
}

/** The order of claims, for rows of `job_pending p`. */
export const order = '(-p.priority::bigint), p.run_at, p.id'

export function claimStatements(s: string): ClaimStatements {
  // The queues here, and what a claim below is told, stand in a SELECT so that a planner cannot look at them: else it hopes
  // for a better plan with each claim, and planning costs more than all the rest.
  const promote = `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),
due AS MATERIALIZED (
  SELECT d.id
  FROM clock, unnest((SELECT $2::text[])) q (queue)
  CROSS JOIN LATERAL (
    SELECT p.id FROM ${s}.job_pending p
    WHERE p.namespace = $1 AND p.queue = q.queue AND p.state = 'scheduled' AND p.run_at <= clock.now
    ORDER BY p.run_at LIMIT 2000 FOR UPDATE SKIP LOCKED
  ) d
),
moved AS (
  UPDATE ${s}.job_pending p SET state = 'ready', updated_at = clock.now
  FROM clock, due WHERE p.namespace = $1 AND p.id = due.id
  RETURNING 1
)
SELECT EXISTS (SELECT FROM moved) AS moved, ARRAY (
  SELECT l.lease_no::text FROM ${s}.job_lease l
  WHERE l.namespace = $1 AND l.ends_at <= (SELECT now FROM clock) AND NOT l.lease_no = ANY ((SELECT $3::bigint[])::bigint[])
  ORDER BY l.ends_at LIMIT 200
) AS lapsed, ARRAY (
  SELECT c.queue FROM ${s}.queue_control c
  WHERE c.namespace = $1 AND c.queue = ANY ((SELECT $2::text[])::text[]) AND c.limits IS NOT NULL AND c.paused_at IS NULL
) AS limited`

  const lapsed = `
        SELECT FROM ${s}.job_lease l
        WHERE l.namespace = $1 AND l.ends_at <= (SELECT now FROM clock) AND NOT l.lease_no = ANY ($8::bigint[])`
  const eligible = `p.namespace = $1 AND p.state = 'ready'
      AND p.run_at <= (SELECT now FROM clock)
      AND ((SELECT $3::text[]) IS NULL OR p.kind = ANY ((SELECT $3::text[])::text[]))`
  // Any one would do, but a planner that need not begin with the earliest would rather read the whole table. What the look
  // takes is no part of how long the claim took: a cursor would not make it quicker.
  const first = `,
first AS MATERIALIZED (
  SELECT EXISTS (${lapsed})
    OR EXISTS (
      SELECT FROM unnest((SELECT $2::text[])) q (queue)
      CROSS JOIN LATERAL (
        SELECT FROM ${s}.job_pending p
        WHERE p.namespace = $1 AND p.queue = q.queue AND p.state = 'scheduled' AND p.run_at <= (SELECT now FROM clock)
        ORDER BY p.run_at LIMIT 1
      ) d)
    OR EXISTS (
      SELECT FROM ${s}.queue_control c
      WHERE c.namespace = $1 AND c.queue = ANY ((SELECT $2::text[])::text[]) AND c.limits IS NOT NULL AND c.paused_at IS NULL
    ) AS something, clock_timestamp() AS began
)`
  const head = `WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now, clock_timestamp() AS began)`
  const tail = (began: Premise['began']) =>
    handOut(s, { nonce: '$5', workerId: '$6', endsAt: 'c.now + $7::bigint', began })

  // By place, not by key: the rows are locked, so they cannot have moved; and only what was deleted is handed out. All
  // places in one scan: joined to the list of them, a scan is begun anew for each row, and a claim costs a quarter more.
  const taken = `,
taken AS (
  DELETE FROM ${s}.job_pending p WHERE p.ctid = ANY (ARRAY (SELECT picked.place FROM picked)) RETURNING p.*
)`
  const one = ({ condition, began }: Premise) => `
picked AS MATERIALIZED (
  SELECT p.ctid AS place FROM ${s}.job_pending p
  WHERE ${eligible} AND ${condition} AND p.queue = (SELECT ($2::text[])[1])
    AND ((-p.priority::bigint), p.run_at, p.id)
      >= ((SELECT ($9::bigint[])[1]), (SELECT ($10::bigint[])[1]), (SELECT ($11::text[])[1]))
    AND NOT EXISTS (
      SELECT FROM ${s}.queue_control c
      WHERE c.namespace = $1 AND c.queue = ($2::text[])[1] AND (c.paused_at IS NOT NULL OR c.limits IS NOT NULL))
  ORDER BY ${order} LIMIT (SELECT $4::bigint) FOR UPDATE SKIP LOCKED
)${taken}${tail(began)}`
  // First how many of the best are in which queue, then that many from each: locking `limit` rows in every queue
  // would keep others from jobs that are not taken.
  const many = ({ condition, began }: Premise) => `
asked AS MATERIALIZED (
  SELECT q.* FROM unnest($2::text[], $9::bigint[], $10::bigint[], $11::text[]) q (queue, after_rank, after_run_at, after_id)
  WHERE NOT EXISTS (
    SELECT FROM ${s}.queue_control c
    WHERE c.namespace = $1 AND c.queue = q.queue AND (c.paused_at IS NOT NULL OR c.limits IS NOT NULL))
),
best AS MATERIALIZED (
  SELECT b.queue, count(*) AS wanted
  FROM (
    SELECT q.queue
    FROM asked q CROSS JOIN LATERAL (
      SELECT p.priority, p.run_at, p.id FROM ${s}.job_pending p
      WHERE ${eligible} AND ${condition} AND p.queue = q.queue
        AND ((-p.priority::bigint), p.run_at, p.id) >= (q.after_rank, q.after_run_at, q.after_id)
      ORDER BY ${order} LIMIT $4
    ) c
    ORDER BY -c.priority::bigint, c.run_at, c.id LIMIT $4
  ) b
  GROUP BY b.queue
),
picked AS MATERIALIZED (
  SELECT c.place
  FROM best b JOIN asked q ON q.queue = b.queue CROSS JOIN LATERAL (
    SELECT p.ctid AS place FROM ${s}.job_pending p
    WHERE ${eligible} AND ${condition} AND p.queue = b.queue
      AND ((-p.priority::bigint), p.run_at, p.id) >= (q.after_rank, q.after_run_at, q.after_id)
    ORDER BY ${order} LIMIT b.wanted FOR UPDATE SKIP LOCKED
  ) c
)${taken}${tail(began)}`
  const promoted: Premise = { condition: `NOT EXISTS (${lapsed})`, began: 'clock' }
  const calm: Premise = { condition: '(SELECT NOT something FROM first)', began: 'first' }
  const straight = (text: string) => `${head}${first},${text}${refusedIf('first WHERE something')}`
  return {
    promote: { name: 'sb_promote', text: promote },
    one: { name: 'sb_claim', text: `${head},${one(promoted)}` },
    many: { name: 'sb_claim_many', text: `${head},${many(promoted)}` },
    straightOne: { name: 'sb_claim_straight', text: straight(one(calm)) },
    straightMany: { name: 'sb_claim_many_straight', text: straight(many(calm)) },
  }
}

/** What a claim goes by. */
interface Premise {
  /** Only then does it take anything. */
  readonly condition: string
  /** What knows since when it looks for jobs. */
  readonly began: 'clock' | 'first'
}

/**
 * What makes a lease of the rows `taken`, by the `clock`, and answers them: the end of every statement that claims. Its
 * first value is the namespace.
 */
export function handOut(
  s: string,
  { nonce, workerId, endsAt, began = 'clock', besides = '' }: HandOut,
): string {
  return `,
lease AS (
  INSERT INTO ${s}.job_lease (lease_no, namespace, nonce, worker_id, claimed_at, ends_at, job_count, jobs)
  SELECT nextval('${s.replaceAll("'", "''")}.job_lease_no'), $1, ${nonce}, ${workerId}, c.now, ${endsAt}, j.job_count, j.jobs
  FROM clock c, (
    SELECT count(*)::int AS job_count,
           array_agg(ROW (t.id, t.queue, t.kind, t.payload, t.priority, t.unique_key, t.attempt + 1, t.max_attempts,
             t.hand_back_count, t.snooze_count, t.run_at, t.created_at, t.backoff, t.timeout_ms, t.result, t.error,
             t.meta)::${s}.leased_job) AS jobs
    FROM taken t
  ) j
  WHERE j.job_count > 0
  RETURNING lease_no, claimed_at, ends_at
)${besides}
SELECT t.id, t.queue, t.kind, t.payload, t.priority, t.attempt + 1, t.max_attempts, t.hand_back_count, t.snooze_count,
       t.run_at, t.created_at,
       -- What most jobs have nothing of is one column: each of its own would cost every row a little.
       CASE WHEN num_nonnulls(t.unique_key, t.backoff, t.timeout_ms, t.result, t.error, t.meta) > 0
              OR t.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1)
            THEN json_build_array(t.unique_key, t.backoff, t.timeout_ms, t.result, t.error, t.meta,
              t.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1))::text END
FROM taken t, lease l
UNION ALL
-- What all of them share is told once, in a row of its own.
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       json_build_array(l.lease_no::text, l.claimed_at, l.ends_at,
         extract(epoch FROM clock_timestamp() - (SELECT began FROM ${began}))::float8 * 1000)::text
FROM lease l`
}

/** Behind that: a row without anything in it says that nothing was taken because something goes first. */
export function refusedIf(source: string): string {
  return `
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM ${source}`
}

/** Expressions. */
interface HandOut {
  readonly nonce: string
  readonly workerId: string
  readonly endsAt: string
  /** What has the time at which it `began`. @default 'clock' */
  readonly began?: string
  /** What else is written with the lease. */
  readonly besides?: string
}

export function claimValues(
  namespace: string,
  { kinds, workerId, leaseMs }: ClaimRequest,
  queues: readonly string[],
  limit: number,
  nonce: string,
  /** Leases that ran out and cannot be taken back now. */
  ignored: readonly string[],
  positions: readonly Position[],
): unknown[] {
  return [
    namespace,
    queues,
    kinds,
    limit,
    nonce,
    workerId,
    leaseMs,
    ignored,
    positions.map(({ rank }) => rank),
    positions.map(({ runAt }) => runAt),
    positions.map(({ id }) => id),
  ]
}

/** Whether a straight claim took nothing because something goes first. */
export function isRefused(rows: readonly ClaimRow[]): boolean {
  return rows.length === 1 && rows[0]!.every((column) => column === null)
}

export function decodeClaimed(
  rows: readonly ClaimRow[],
  nonce: string,
  workerId: string,
): Claimed | undefined {
  const shared = rows.findLast((row) => row[0] === null)
  if (shared === undefined) return undefined
  const [leaseNo, startedAt, leaseEndsAt, tookMs] = JSON.parse(shared[11] as string) as SharedColumns
  const lease = {
    startedAt,
    leaseEndsAt,
    token: encodeToken({ leaseNo, nonce }),
    workerId,
  }
  const jobs = rows.filter((row) => row !== shared).map((row) => decodeClaimedRow(row, lease))
  return { leaseNo, jobs, tookMs }
}

interface Shared {
  readonly startedAt: number
  readonly leaseEndsAt: number
  readonly token: string
  readonly workerId: string
}

/** The lease's number, when it was claimed and when it ends, and how long the claim took. */
type SharedColumns = readonly [string, number, number, number]

/** A unique key, backoff, time-out, result, error and meta, and whether it is to be cancelled. */
type RareColumns = readonly [
  string | null,
  string | null,
  number | null,
  string | null,
  string | null,
  string | null,
  boolean,
]
const noneRare: RareColumns = [null, null, null, null, null, null, false]

function decodeClaimedRow(row: ClaimRow, { startedAt, leaseEndsAt, token, workerId }: Shared): ClaimedRecord {
  const rare = row[11] === null ? noneRare : (JSON.parse(row[11] as string) as RareColumns)
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
    startedAt,
    finishedAt: null,
    workerId,
    leaseEndsAt,
    backoff: rare[1],
    timeoutMs: rare[2],
    meta: rare[5],
    result: rare[3],
    error: rare[4],
    cancelRequested: rare[6],
    cancelIgnored: false,
    token,
  }
}

/** The order of claims; RETURNING promises none. */
export function byOrder(a: InOrder, b: InOrder): number {
  return b.priority - a.priority || a.runAt - b.runAt || (a.id < b.id ? -1 : 1)
}

/** What the order of claims goes by. */
export type InOrder = Pick<ClaimedRecord, 'priority' | 'runAt' | 'id'>
