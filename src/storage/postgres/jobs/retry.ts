import type { RetryAnswer } from '../../../jobs/index.ts'
import { keptForRetry } from '../../sql/log-row.ts'
import { nowMs, perSchema, type Statement } from '../connection/statement.ts'
import { reclaim, reclaimThese } from './reclaim.ts'
import { runIn, type Scope } from './space.ts'

/**
 * Retries jobs. A live job that does not run becomes due now. An ended job moves from the history back into
 * `job_queue`, where the unique index decides whether its key is free.
 */
const retryStatements = perSchema((s) => {
  /** Removes logs that would leave little of the limit for the next attempts. */
  const removeFullLogs = (begun: string) => `
full_logs AS (
  DELETE FROM ${s}.job_progress p USING ${begun} b WHERE p.namespace = $1 AND p.job_id = b.id
    AND (p.line_count > ${keptForRetry.lineCount} OR p.line_bytes > ${keptForRetry.lineBytes})
  RETURNING p.job_id, p.attempt
),
unsaid AS (
  DELETE FROM ${s}.job_log l USING full_logs f
  WHERE l.namespace = $1 AND l.job_id = f.job_id AND l.attempt = f.attempt
)`
  // `old` are locked rows of the history. A row moves if its key is free; of two rows with the same key, the older one
  // moves.
  const back = `
begun AS (
  INSERT INTO ${s}.job_queue (namespace, id, queue, kind, payload, priority, unique_key, state, max_attempts, run_at, created_at,
    updated_at, lease_no, settled_tokens, backoff, timeout_ms, meta, limit_key, error)
  SELECT q.namespace, q.id, q.queue, q.kind, q.payload, q.priority, q.unique_key, 'ready', q.max_attempts, clock.now,
    q.created_at, clock.now, q.lease_no,
    left(concat_ws(' ', q.lease_no || '.' || q.lease_nonce, q.settled_tokens), 800), q.backoff, q.timeout_ms, q.meta,
    q.limit_key, q.error
  FROM clock, old q ORDER BY q.id
  ON CONFLICT DO NOTHING
  RETURNING id
),
gone AS (
  DELETE FROM ${s}.job_history h WHERE h.ctid = ANY (ARRAY (SELECT old.place FROM old
    WHERE CASE WHEN old.id IN (SELECT id FROM begun) THEN true ELSE false END))
),
uncancelled AS (DELETE FROM ${s}.job_cancel c USING begun WHERE c.namespace = $1 AND c.job_id = begun.id),${removeFullLogs('begun')}
SELECT (SELECT count(*)::int FROM begun) AS retried_count, (SELECT max(id) FROM old) AS last`
  const clock = `clock AS MATERIALIZED (SELECT ${nowMs} AS now)`
  return {
    retryIdle: {
      name: 'sb_retry_idle',
      text: `
WITH ${clock},
begun AS (
  UPDATE ${s}.job_queue SET state = 'ready', attempt = 0, hand_back_count = 0, snooze_count = 0, run_at = clock.now,
    updated_at = clock.now, started_at = NULL, worker_id = NULL
  FROM clock WHERE namespace = $1 AND id = $2 AND state <> 'running' RETURNING id
),
uncancelled AS (DELETE FROM ${s}.job_cancel c USING begun WHERE c.namespace = $1 AND c.job_id = begun.id),${removeFullLogs('begun')}
SELECT count(*)::int AS retried_count FROM begun`,
    },
    retryEnded: {
      name: 'sb_retry_ended',
      text: `
WITH ${clock},
old AS MATERIALIZED (
  SELECT h.ctid AS place, h.* FROM ${s}.job_history h WHERE h.namespace = $1 AND h.id = $2 FOR UPDATE
),${back}`,
    },
    retryDead: {
      name: 'sb_retry_dead',
      text: `
WITH ${clock},
old AS MATERIALIZED (
  SELECT h.ctid AS place, h.* FROM ${s}.job_history h
  WHERE h.namespace = $1 AND h.state = 'dead' AND h.state <> 'completed' AND ($2::text IS NULL OR h.queue = $2)
    AND ($3::text IS NULL OR h.kind = $3) AND h.id > $5
  ORDER BY h.id LIMIT $4 FOR UPDATE SKIP LOCKED
),${back}`,
    },
    // Whether the job runs, with a live or expired lease, or has ended.
    look: {
      name: 'sb_retry_look',
      text: `
SELECT CASE WHEN q.lease_ends_at <= ${nowMs} THEN 'lapsed' ELSE 'running' END AS found FROM ${s}.job_queue q
WHERE q.namespace = $1 AND q.id = $2 AND (q.state = 'running') IS TRUE
UNION ALL
SELECT CASE WHEN u.id IS NULL THEN 'ended' WHEN u.state = 'running' AND u.lease_ends_at <= ${nowMs} THEN 'taken by ' || u.id
            ELSE 'taken' END
FROM ${s}.job_history h LEFT JOIN ${s}.job_queue u
  ON u.namespace = h.namespace AND u.queue = h.queue AND u.unique_key = h.unique_key
WHERE h.namespace = $1 AND h.id = $2`,
    },
  }
})

const maxTries = 4
const page = 500

/** Makes a job ready now if it waits or has ended. */
export async function retry(scope: Scope, id: string): Promise<RetryAnswer | undefined> {
  const { retryIdle, retryEnded, look } = retryStatements(scope.schemaName)
  let found: string | undefined
  for (let tries = 0; tries < maxTries; tries++) {
    for (const statement of [retryIdle, retryEnded]) {
      const [row] = await runAndForgetPositions<{ retried_count: number }>(scope, statement, id)
      if (row!.retried_count > 0) return { outcome: 'ready' }
    }
    found = (await runIn<{ found: string }>(scope, look, id))[0]?.found
    if (found === 'running' || found === 'taken') return { outcome: found }
    // The lease of this job expired, or the lease of the job that has its key.
    if (found === 'lapsed') await reclaimThese(scope, [id])
    else if (found?.startsWith('taken by ')) await reclaimThese(scope, [found.slice('taken by '.length)])
  }
  if (found === undefined) return undefined
  return { outcome: found === 'lapsed' ? 'running' : 'taken' }
}

export async function retryDead(scope: Scope, { queue, kind, limit }: DeadJobs): Promise<number> {
  // A job is dead once its last lease ran out, reclaimed or not.
  await reclaim(scope, 100_000)
  let total = 0
  let after = ''
  while (total < limit) {
    const values = [queue ?? null, kind ?? null, Math.min(limit - total, page), after]
    const [row] = await runAndForgetPositions<{ retried_count: number; last: string | null }>(
      scope,
      retryStatements(scope.schemaName).retryDead,
      ...values,
    )
    total += row!.retried_count
    if (row!.last === null) break
    after = row!.last
  }
  return total
}

/** Which dead jobs to retry, and how many. */
export interface DeadJobs {
  readonly queue?: string
  readonly kind?: string
  readonly limit: number
}

/** Runs a statement and forgets the positions of claims: a retried job may stand before them. */
async function runAndForgetPositions<Row extends object>(
  scope: Scope,
  statement: Statement,
  ...values: unknown[]
): Promise<readonly Row[]> {
  const rows = await runIn<Row>(scope, statement, ...values)
  scope.sender.onCommit(() => scope.positions.forget())
  return rows
}
