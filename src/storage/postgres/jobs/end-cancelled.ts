import { nowMs } from '../connection/columns.ts'

/**
 * Parts of a statement whose `gone` are rows it deleted from job_pending: they become history as cancelled jobs, and
 * what their keys and a wish to cancel them left behind goes with them. `error` is the column of `gone` that says why.
 */
export function endCancelled(s: string, error: string): string {
  return `over AS (
  INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff,
    timeout_ms, result, error, cancel_ignored, meta)
  SELECT namespace, id, queue, kind, payload, priority, unique_key, 'cancelled', attempt, max_attempts, hand_back_count,
    snooze_count, run_at, created_at, started_at, ${nowMs}, worker_id, NULL, backoff, timeout_ms, result, ${error},
    false, meta
  FROM gone
),
freed AS (
  DELETE FROM ${s}.job_unique u USING gone
  WHERE u.namespace = $1 AND u.queue = gone.queue AND u.unique_key = gone.unique_key AND u.job_id = gone.id
),
heeded AS (
  DELETE FROM ${s}.job_cancel c USING gone WHERE c.namespace = $1 AND c.job_id = gone.id
)`
}
