import type { Verdict } from '../../../jobs/index.ts'
import { boundAttemptError, lostError } from '../../attempt-error.ts'
import { endIdle } from '../../sql/jobs/cancel.ts'
import { expiredError } from '../../token.ts'
import type { Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/**
 * Moves rows out of `job_queue` without a verdict: expired jobs, and jobs cancelled before they ran. The caller has
 * locked the rows, so inserting them into the history and deleting them is one step.
 *
 * `lease_nonce` of a history row is that of the settled attempt. It stays null here, because no verdict was written. A
 * job with an expired lease ended when the lease expired, however late the store notices.
 */

/** The columns that a job takes to the history, and back. */
export const carried = `namespace, id, queue, kind, payload, priority, unique_key, max_attempts, run_at, created_at,
  lease_no, settled_tokens, backoff, timeout_ms, meta`

/** The columns that the history adds. */
export const ending = `state, attempt, hand_back_count, snooze_count, started_at, finished_at, worker_id, lease_nonce,
  result, error, cancel_ignored`

export function toDead({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [
    [
      `INSERT INTO ${tables.history} (${carried}, ${ending})
        SELECT ${carried}, 'dead', attempt, hand_back_count, snooze_count, started_at, lease_ends_at, worker_id, NULL,
          NULL, ?, FALSE
        FROM ${tables.queue} WHERE namespace = ? AND id IN (?)`,
      [expiredError, namespace, ids],
    ],
    [
      `INSERT IGNORE INTO ${tables.dead} (namespace, queue, id, kind)
        SELECT namespace, queue, id, kind FROM ${tables.queue} WHERE namespace = ? AND id IN (?)`,
      [namespace, ids],
    ],
    deleteJobs({ tables, namespace }, ids),
    deleteCancelRequests({ tables, namespace }, ids),
  ]
}

export function toCancelled({ namespace, database }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  const ends = ids.map((id) => ({ id, error: null }))
  return endIdle(namespace, ends).flatMap((bound) => database.encode(bound))
}

/** Deletes jobs from the queue. */
export function deleteJobs(
  { tables, namespace }: Pick<Store, 'tables' | 'namespace'>,
  ids: readonly string[],
): Statement {
  return [`DELETE FROM ${tables.queue} WHERE namespace = ? AND id IN (?)`, [namespace, ids]]
}

/** Deletes the cancellation requests of jobs. */
export function deleteCancelRequests(
  { tables, namespace }: Pick<Store, 'tables' | 'namespace'>,
  ids: readonly string[],
): Statement {
  return [`DELETE FROM ${tables.cancel} WHERE namespace = ? AND job_id IN (?)`, [namespace, ids]]
}

/** Makes the jobs ready again, at their old position. */
export function toReady({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [
    [
      `UPDATE ${tables.queue}
        SET state = 'ready', lease_ends_at = NULL, updated_at = ${nowMs}
        WHERE namespace = ? AND id IN (?)`,
      [namespace, ids],
    ],
  ]
}

/**
 * The columns of attempts that failed or were lost. Their rows are written in the verdict's transaction while the jobs
 * are in the queue.
 */
export const attemptColumns = `namespace, job_id, number, attempt, queue, kind, outcome, worker_id, \`release\`, started_at,
  ended_at, error`

/** The release of the job's worker when the attempt began. */
export function releaseOf({ tables }: Pick<Store, 'tables'>, job: string): string {
  return `(SELECT w.release_name FROM ${tables.worker} w
      WHERE w.namespace = ${job}.namespace AND w.id = ${job}.worker_id AND w.started_at <= ${job}.started_at)`
}

/** The same, read separately: in a caller's transaction it would keep the worker's row locked. */
export async function findRelease(store: Store, jobId: string): Promise<string | null> {
  const { calls, tables, namespace } = store
  const [row] = await calls.run('look up a release', (call) =>
    call.rows<{ name: string | null }>(
      `SELECT ${releaseOf(store, 'q')} AS name FROM ${tables.queue} q WHERE q.namespace = ? AND q.id = ?`,
      [namespace, jobId],
    ),
  )
  return row?.name ?? null
}

/** The attempts of verdicts that leave one: see `leavesAttempt`. */
export function keepAttempts(store: Store, verdicts: readonly Verdict[]): Statement {
  const { tables, namespace } = store
  return [
    `INSERT IGNORE INTO ${tables.attempt} (${attemptColumns})
      WITH v (job_id, attempt, outcome, ran_ms, error) AS (VALUES ?)
      SELECT q.namespace, q.id, q.lease_no, v.attempt, q.queue, q.kind, v.outcome, q.worker_id, ${releaseOf(store, 'q')},
        IF(v.ran_ms < 0, q.started_at, ${nowMs} - v.ran_ms), ${nowMs}, v.error
      FROM v STRAIGHT_JOIN ${tables.queue} q ON q.namespace = ? AND q.id = v.job_id`,
    [
      verdicts.map(({ jobId, attempt, state, ranMs, error }) => [
        jobId,
        attempt,
        state === 'dead' ? 'dead' : 'failed',
        ranMs === null ? -1 : Math.max(0, Math.round(ranMs)),
        boundAttemptError(error!),
      ]),
      namespace,
    ],
  ]
}

/** The attempts of jobs with an expired lease. */
export function keepLost(store: Store, ids: readonly string[]): readonly Statement[] {
  const { tables, namespace } = store
  if (ids.length === 0) return []
  return [
    [
      `INSERT IGNORE INTO ${tables.attempt} (${attemptColumns})
        SELECT namespace, id, lease_no, attempt, queue, kind, 'lost', worker_id, ${releaseOf(store, 'q')}, started_at,
          lease_ends_at, ?
        FROM ${tables.queue} q WHERE namespace = ? AND id IN (?)`,
      [lostError, namespace, ids],
    ],
  ]
}
