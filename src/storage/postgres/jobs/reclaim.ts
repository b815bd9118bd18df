import { escapeLiteral } from 'pg'
import { lostError } from '../../attempt-error.ts'
import { expiredError } from '../../token.ts'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { attemptColumns, carried, ending, releaseOf } from './settle.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Reclaims jobs whose lease expired: a job becomes `ready` if attempts are left, else `dead`, or `cancelled` if that
 * was requested. The statements skip locked rows: a user's transaction is ending such a job, and that transaction
 * decides.
 */
export interface ReclaimStatements {
  /** Reclaims up to $2 jobs of all queues; $3 is the error of dead jobs. */
  readonly all: Statement
  /** Reclaims the jobs $2; $3 is the error of dead jobs. */
  readonly these: Statement
  /** Runs before a claim from the queues $2: also makes due jobs ready. Answers which of the queues have limits. */
  readonly prepare: Statement
}

/** How many jobs one statement reclaims or makes ready in each queue. */
const mostJobs = 2_000

export const reclaimStatements: (schema: string) => ReclaimStatements = perSchema((s) => {
  const clock = `clock AS MATERIALIZED (SELECT ${nowMs} AS now)`
  const now = '(SELECT now FROM clock)'
  const isLapsed = (row: string) => `${row}.state = 'running' AND ${row}.lease_ends_at <= ${now}`
  const lapsedOf = (queue: string, limit: string | number) => `
    SELECT q.ctid AS place FROM ${s}.job_queue q
    WHERE q.namespace = $1 AND q.queue = ${queue} AND ${isLapsed('q')}
    ORDER BY q.lease_ends_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`
  // `lapsed` has the `ctid` of each row. The rows are locked.
  const takeBack = (error: string) => {
    const isEnd = `(q.attempt >= q.max_attempts OR q.id IN (SELECT job_id FROM request))`
    const atPlace = `q.ctid = ANY (ARRAY (SELECT place FROM lapsed))`
    return `
request AS MATERIALIZED (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1 AND EXISTS (SELECT FROM lapsed)),
back AS (
  UPDATE ${s}.job_queue q SET state = 'ready', lease_ends_at = NULL, updated_at = ${now}
  WHERE ${atPlace} AND CASE WHEN ${isEnd} THEN false ELSE true END
  RETURNING 1
),
gone AS (
  DELETE FROM ${s}.job_queue q WHERE ${atPlace} AND CASE WHEN ${isEnd} THEN true ELSE false END
  RETURNING q.*, CASE WHEN q.id IN (SELECT job_id FROM request) THEN 'cancelled' ELSE 'dead' END AS becomes
),
over AS (
  INSERT INTO ${s}.job_history (${carried}, ${ending})
  SELECT ${carried}, becomes, attempt, hand_back_count, snooze_count, started_at, lease_ends_at, worker_id, NULL, NULL,
    CASE WHEN becomes = 'dead' THEN ${error} ELSE error END, false
  FROM gone
),
lost AS (
  INSERT INTO ${s}.job_attempt (${attemptColumns})
  SELECT q.namespace, q.id, q.lease_no, q.attempt, q.queue, q.kind, 'lost', q.worker_id, ${releaseOf(s, 'q')}, q.started_at,
    q.lease_ends_at, ${escapeLiteral(lostError)}
  FROM ${s}.job_queue q WHERE ${atPlace} ON CONFLICT DO NOTHING
),
heeded AS (
  DELETE FROM ${s}.job_cancel c USING gone WHERE c.namespace = $1 AND c.job_id = gone.id AND gone.becomes = 'cancelled'
)`
  }
  const counts = `(SELECT count(*)::int FROM back) AS ready,
  (SELECT count(*)::int FROM gone WHERE becomes = 'dead') AS dead,
  (SELECT count(*)::int FROM gone WHERE becomes = 'cancelled') AS cancelled`
  return {
    // Steps from queue to queue along the index, so its time does not depend on the number of jobs.
    all: {
      name: 'sb_reclaim',
      text: `
WITH RECURSIVE ${clock},
name (queue) AS (
  SELECT min(q.queue) FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.state = 'running'
  UNION ALL
  SELECT (SELECT min(q.queue) FROM ${s}.job_queue q
          WHERE q.namespace = $1 AND q.state = 'running' AND q.queue > name.queue)
  FROM name WHERE name.queue IS NOT NULL
),
lapsed AS MATERIALIZED (
  SELECT l.place FROM name CROSS JOIN LATERAL (${lapsedOf('name.queue', '$2::bigint')}) l LIMIT $2
),${takeBack('$3::text')}
SELECT ${counts}`,
    },
    these: {
      name: 'sb_reclaim_these',
      text: `
WITH ${clock},
lapsed AS MATERIALIZED (
  SELECT l.place FROM unnest($2::text[]) g (id) CROSS JOIN LATERAL (
    SELECT q.ctid AS place FROM ${s}.job_queue q
    WHERE q.namespace = $1 AND q.id = g.id AND (${isLapsed('q')}) IS TRUE OFFSET 0 FOR UPDATE SKIP LOCKED) l
),${takeBack('$3::text')}
SELECT ${counts}`,
    },
    prepare: {
      name: 'sb_prepare_claim',
      text: `
WITH ${clock},
due AS MATERIALIZED (
  SELECT d.place FROM unnest($2::text[]) g (queue) CROSS JOIN LATERAL (
    SELECT q.ctid AS place FROM ${s}.job_queue q
    WHERE q.namespace = $1 AND q.queue = g.queue AND q.state = 'scheduled' AND q.run_at <= ${now}
    ORDER BY q.run_at LIMIT ${mostJobs} FOR UPDATE SKIP LOCKED) d
),
moved AS (
  UPDATE ${s}.job_queue q SET state = 'ready', updated_at = ${now} WHERE q.ctid = ANY (ARRAY (SELECT place FROM due))
  RETURNING 1
),
lapsed AS MATERIALIZED (
  SELECT l.place FROM unnest($2::text[]) g (queue) CROSS JOIN LATERAL (${lapsedOf('g.queue', mostJobs)}) l
),${takeBack('$3::text')}
SELECT EXISTS (SELECT FROM moved) OR EXISTS (SELECT FROM back) AS moved, ARRAY (
  SELECT c.queue FROM ${s}.queue_control c
  WHERE c.namespace = $1 AND c.queue = ANY ($2::text[]) AND c.limits IS NOT NULL AND c.paused_at IS NULL) AS limited`,
    },
  }
})

export interface Reclaimed {
  readonly ready: number
  readonly dead: number
  readonly cancelled: number
}

/** The answer of `prepare`. */
export interface PreparedRow extends Record<string, unknown> {
  /** The statement made jobs ready. */
  readonly moved: boolean
  readonly limited: readonly string[]
}

/** Reclaims up to `limit` jobs whose lease expired. */
export async function reclaim(scope: Scope, limit: number): Promise<Reclaimed> {
  const total = { ready: 0, dead: 0, cancelled: 0 }
  const count = () => total.ready + total.dead + total.cancelled
  while (count() < limit) {
    const most = Math.min(limit - count(), mostJobs)
    const some = await run(scope, reclaimStatements(scope.schemaName).all, most)
    total.ready += some.ready
    total.dead += some.dead
    total.cancelled += some.cancelled
    if (some.ready + some.dead + some.cancelled < most) break
  }
  return total
}

/** Reclaims these jobs, except those whose lease is valid. */
export function reclaimThese(scope: Scope, ids: readonly string[]): Promise<Reclaimed> {
  return run(scope, reclaimStatements(scope.schemaName).these, ids)
}

async function run(scope: Scope, statement: Statement, which: unknown): Promise<Reclaimed> {
  const [reclaimed] = await runIn<Reclaimed>(scope, statement, which, expiredError)
  if (reclaimed!.ready > 0) scope.sender.onCommit(() => scope.positions.forget())
  return reclaimed!
}
