import type { Verdict } from '../../../jobs/index.ts'
import type { Token } from '../../token.ts'
import { between, nowMs, sparse } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Leases } from './leases.ts'
import { notWholeState } from './settle.ts'

/**
 * The commonest end of all: every job of a lease completed. Its row is deleted and its jobs become history as they lie
 * in it, side by side with what the handlers returned; nothing is joined, looked up or sent twice. What is sent must be
 * in the order in which the row has the jobs; a statement that finds another order refuses and changes nothing, and
 * the general form (settle.ts) takes over.
 */
export function finishStatement(s: string): Statement {
  return {
    name: 'sb_finish',
    text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),
gone AS MATERIALIZED (
  SELECT c.* FROM ${s}.signalbox_close($1, ARRAY[$2::bigint], ARRAY[$3::text], ARRAY[$7::int], '{}') c
),
over AS (
  INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff,
    timeout_ms, result, error, cancel_ignored, meta)
  SELECT $1, CASE WHEN j.id = j.given_id THEN j.id
                  ELSE ${s}.signalbox_refuse('${notWholeState}', 'another order')::text END,
    j.queue, j.kind, j.payload, j.priority, NULL, 'completed', j.attempt, j.max_attempts, j.hand_back_count,
    j.snooze_count, j.run_at, j.created_at, coalesce(clock.now - coalesce(j.ran_ms, $8::bigint), g.claimed_at),
    clock.now, g.worker_id, g.lease_no, j.backoff, j.timeout_ms, j.given_result, NULL,
    CASE WHEN j.id IN (SELECT c.job_id FROM ${s}.job_cancel c WHERE c.namespace = $1) THEN true ELSE false END, j.meta
  FROM clock, gone g, ROWS FROM (
    unnest(g.jobs), unnest(string_to_array($4, E'\\x1f')), unnest($5::bigint[]), unnest($6::text[])
  ) AS j (id, queue, kind, payload, priority, unique_key, attempt, max_attempts, hand_back_count, snooze_count, run_at,
    created_at, backoff, timeout_ms, result, error, meta, given_id, ran_ms, given_result)
)
SELECT lease_no FROM gone`,
  }
}

/** The values of the statement, or undefined when these verdicts are not just that: all of a lease, all completed. */
export function finishValues(
  namespace: string,
  leases: Leases,
  token: Token,
  verdicts: readonly Verdict[],
): unknown[] | undefined {
  const order = leases.untouched(token)
  if (order === undefined || order.length !== verdicts.length) return undefined
  const byId = new Map(verdicts.map((verdict) => [verdict.jobId, verdict]))
  const ran: (number | null)[] = []
  const results: (string | null)[] = []
  for (const job of order) {
    const verdict = byId.get(job.id)
    if (verdict?.state !== 'completed' || verdict.error !== null || job.uniqueKey !== null) return undefined
    if (verdict.attempt !== job.attempt) return undefined
    if (verdict.handBackCount !== job.handBackCount || verdict.snoozeCount !== job.snoozeCount)
      return undefined
    ran.push(verdict.ranMs)
    results.push(verdict.result)
  }
  // Texts that are merely put between others need no quotes; and jobs that are over at once all took the same time.
  const ids = order.map(({ id }) => id).join(between)
  const [first = null] = ran
  const isSame = ran.every((ranMs) => ranMs === first)
  return [
    namespace,
    token.leaseNo,
    token.nonce,
    ids,
    isSame ? [] : ran,
    sparse(results),
    order.length,
    isSame ? first : null,
  ]
}
