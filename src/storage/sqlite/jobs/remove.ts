import { createIds } from '../../../core/ids.ts'
import { forgetAttempts } from '../../sql/attempts/attempts.ts'
import { forgetDependencies } from '../../sql/dependencies/dependencies.ts'
import { deleteJobLogs } from '../../sql/logs.ts'
import type { Moment } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'

/** Deletes jobs and all their data, except running jobs. */
export function removeJobs(
  { connection, namespace, now }: Moment,
  ids: readonly string[],
): readonly string[] {
  const among = 'IN (SELECT value FROM json_each(?2))'
  const wanted = JSON.stringify(ids)
  const live = connection.all<{ id: string }>(
    `DELETE FROM job_queue
     WHERE namespace = ?1 AND id ${among} AND (state <> 'running' OR lease_ends_at <= ?3) RETURNING id`,
    namespace,
    wanted,
    now,
  )
  const ended = connection.all<{ id: string }>(
    `DELETE FROM job_history WHERE namespace = ?1 AND id ${among} RETURNING id`,
    namespace,
    wanted,
  )
  const removed = [...live, ...ended].map(({ id }) => id)
  // A running job with an expired lease may have a cancellation request.
  connection.run(
    `DELETE FROM job_cancel WHERE namespace = ?1 AND job_id ${among}`,
    namespace,
    JSON.stringify(removed),
  )
  runHere(connection, forgetAttempts(namespace, removed))
  runHere(connection, deleteJobLogs(namespace, removed))
  runHere(connection, forgetDependencies(namespace, removed))
  return removed
}

/** The maximum difference between the clocks that created ids and the store's clock. */
const clockSlackMs = 3_600_000

/**
 * Deletes old history. A job ends after it was created, and its id contains that time. So only ids up to the cut-off
 * time plus some slack can have ended before it, and the rest of the history is not read.
 */
export function pruneHistory(
  { connection, namespace, now }: Moment,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): number {
  const cutoff = now - olderThanMs
  if (cutoff < 0) return 0
  const pruned = connection.all<{ id: string }>(
    `DELETE FROM job_history
     WHERE namespace = ?1 AND id IN (SELECT id FROM job_history
       WHERE namespace = ?1 AND id < ?2 AND finished_at < ?3 ORDER BY id LIMIT ?4) RETURNING id`,
    namespace,
    createIds({ now: () => cutoff + clockSlackMs })(),
    cutoff,
    limit,
  )
  const ids = pruned.map(({ id }) => id)
  runHere(connection, forgetAttempts(namespace, ids))
  return pruned.length
}
