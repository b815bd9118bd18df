import type { RetryAnswer } from '../../../jobs/index.ts'
import { limitKeyOf } from '../../sql/limit-plan.ts'
import { deleteLongLogs } from '../../sql/logs.ts'
import type { Moment } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import { findHolder } from './add.ts'
import { findEnded, findLive } from './cancel.ts'
import { takeBackIfLapsed, takeBackLapsed } from './reclaim.ts'

/** Retries a job in its state at `now`, in the open transaction. */
export function retryJob(moment: Moment, id: string): RetryAnswer | undefined {
  const { connection, namespace, now } = moment
  takeBackIfLapsed(moment, id)
  const live = findLive(moment, id)
  if (live?.state === 'running') return { outcome: 'running' }
  if (live) {
    connection.run(
      `UPDATE job_queue
       SET state = 'ready', attempt = 0, hand_back_count = 0, snooze_count = 0, run_at = ?2, updated_at = ?2,
           started_at = NULL, worker_id = NULL
       WHERE rowid = ?1`,
      live.row,
      now,
    )
    runHere(connection, deleteLongLogs(namespace, [id]), now)
    return { outcome: 'ready' }
  }
  const ended = findEnded(moment, id)
  if (!ended) return undefined
  const { queue, unique_key: key, meta } = ended
  if (key !== null && findHolder(moment, queue, key) !== undefined) {
    return { outcome: 'taken' }
  }
  // Copies the number of its last lease, so that the next token is greater than all earlier ones.
  connection.run(
    `INSERT INTO job_queue (
       namespace, id, queue, kind, payload, priority, unique_key, state, max_attempts, run_at, created_at,
       updated_at, lease_no, backoff, timeout_ms, meta, limit_key, error, settled_tokens)
     SELECT namespace, id, queue, kind, payload, priority, unique_key, 'ready', max_attempts, ?3, created_at,
       ?3, lease_no, backoff, timeout_ms, meta, ?4, error,
       iif(lease_nonce IS NULL, settled_tokens, lease_no || '.' || lease_nonce || ' ' || settled_tokens)
     FROM job_history WHERE namespace = ?1 AND id = ?2`,
    namespace,
    id,
    now,
    limitKeyOf(meta),
  )
  connection.run('DELETE FROM job_history WHERE namespace = ?1 AND id = ?2', namespace, id)
  runHere(connection, deleteLongLogs(namespace, [id]), now)
  return { outcome: 'ready' }
}

export function retryDeadJobs(
  moment: Moment,
  { queue, kind, limit }: { readonly queue?: string; readonly kind?: string; readonly limit: number },
): number {
  const { connection, namespace } = moment
  takeBackLapsed(moment, 1_000)
  let took = 0
  let after = ''
  while (took < limit) {
    const page = connection.all<{ id: string }>(
      `SELECT id FROM job_history
       WHERE namespace = ?1 AND state = 'dead' AND state <> 'completed' AND id > ?2
         AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR kind = ?4)
       ORDER BY id LIMIT ?5`,
      namespace,
      after,
      queue ?? null,
      kind ?? null,
      limit - took,
    )
    for (const { id } of page) {
      if (retryJob(moment, id)?.outcome === 'ready') took++
    }
    const last = page.at(-1)
    if (!last) break
    after = last.id
  }
  return took
}
