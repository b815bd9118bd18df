import { expiredError } from '../../token.ts'
import type { Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/**
 * Moves rows out of `job_queue` without a verdict: expired jobs, and jobs cancelled before they ran. The caller has
 * locked the rows, so inserting them into the history and deleting them is one step.
 *
 * `lease_nonce` of a history row is that of the settled attempt; it stays null here, because no verdict was written.
 * A job whose lease ran out ended at that instant, however late the store notices.
 */

/** The columns a job takes along into the history, and back again. */
export const carried = `namespace, id, queue, kind, payload, priority, unique_key, max_attempts, run_at, created_at,
  lease_no, settled_tokens, backoff, timeout_ms, meta`

/** What the history adds to them. */
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
    ...leave({ tables, namespace }, ids),
  ]
}

export function toCancelled({ tables, namespace }: Store, ids: readonly string[]): readonly Statement[] {
  if (ids.length === 0) return []
  return [
    [
      `INSERT INTO ${tables.history} (${carried}, ${ending})
        SELECT ${carried}, 'cancelled', attempt, hand_back_count, snooze_count, started_at, ${nowMs}, worker_id, NULL,
          NULL, error, FALSE
        FROM ${tables.queue} WHERE namespace = ? AND id IN (?)`,
      [namespace, ids],
    ],
    ...leave({ tables, namespace }, ids),
  ]
}

/** The rows go, and with them what was asked of them. */
export function leave(
  { tables, namespace }: Pick<Store, 'tables' | 'namespace'>,
  ids: readonly string[],
): readonly Statement[] {
  if (ids.length === 0) return []
  return [
    [`DELETE FROM ${tables.queue} WHERE namespace = ? AND id IN (?)`, [namespace, ids]],
    [`DELETE FROM ${tables.cancel} WHERE namespace = ? AND job_id IN (?)`, [namespace, ids]],
  ]
}

/** Makes the job ready again, at its old position. */
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
