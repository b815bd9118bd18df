import { createIds } from '../../../core/ids.ts'
import type { CancelAnswer, FinalState, RetryAnswer } from '../../../jobs/index.ts'
import { limitKeyOf } from '../../sql/limit-key.ts'
import { forgetNotes, makeRoomForNotes } from '../../sql/logs.ts'
import type { Connection } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import { findHolder } from './add.ts'
import { forgetDependencies } from './dependency-rows.ts'
import { endJobs } from './end-job.ts'
import { takeBackIfLapsed, takeBackLapsed } from './lapse.ts'

/** What operators do with jobs; each in the caller's transaction, on jobs as they are at `now`. */
export function cancelJob(
  connection: Connection,
  namespace: string,
  id: string,
  now: number,
): CancelAnswer | undefined {
  takeBackIfLapsed(connection, namespace, id, now)
  const live = findLive(connection, namespace, id)
  if (!live) {
    const ended = findEnded(connection, namespace, id)
    return ended && { state: ended.state, cancelRequested: false }
  }
  if (live.state === 'running') {
    connection.run(
      'INSERT OR REPLACE INTO job_cancel (namespace, job_id, lease_no) VALUES (?1, ?2, ?3)',
      namespace,
      id,
      live.lease_no,
    )
    return { state: 'running', cancelRequested: true }
  }
  endJobs(connection, [{ row: live.row, state: 'cancelled', cancelRequested: false }], now)
  return { state: 'cancelled', cancelRequested: false }
}

export function retryJob(
  connection: Connection,
  namespace: string,
  id: string,
  now: number,
): RetryAnswer | undefined {
  takeBackIfLapsed(connection, namespace, id, now)
  const live = findLive(connection, namespace, id)
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
    runHere(connection, makeRoomForNotes(namespace, [id]), now)
    return { outcome: 'ready' }
  }
  const ended = findEnded(connection, namespace, id)
  if (!ended) return undefined
  const { queue, unique_key: key, meta } = ended
  if (key !== null && findHolder(connection, namespace, queue, key, now) !== undefined) {
    return { outcome: 'taken' }
  }
  // The number of its last lease comes along, so that the next token is greater than every one before.
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
  runHere(connection, makeRoomForNotes(namespace, [id]), now)
  return { outcome: 'ready' }
}

export function retryDeadJobs(
  connection: Connection,
  namespace: string,
  { queue, kind, limit }: { readonly queue?: string; readonly kind?: string; readonly limit: number },
  now: number,
): number {
  takeBackLapsed(connection, namespace, 1_000, now)
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
      if (retryJob(connection, namespace, id, now)?.outcome === 'ready') took++
    }
    const last = page.at(-1)
    if (!last) break
    after = last.id
  }
  return took
}

/** Deletes jobs and all that is kept about them, but those that run. */
export function removeJobs(
  connection: Connection,
  namespace: string,
  ids: readonly string[],
  now: number,
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
  // A running job whose lease ran out may have left one.
  connection.run(
    `DELETE FROM job_cancel WHERE namespace = ?1 AND job_id ${among}`,
    namespace,
    JSON.stringify(removed),
  )
  runHere(connection, forgetNotes(namespace, removed))
  forgetDependencies(connection, namespace, removed)
  return removed
}

/** How far the clocks that made ids and the store's may be apart. */
const clockSlackMs = 3_600_000

/**
 * Deletes old history. A job ended after it was made, and its id says when that was: only ids up to the cut-off and
 * some slack can have ended before it, and the rest of the history is not walked through.
 */
export function pruneHistory(
  connection: Connection,
  namespace: string,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
  now: number,
): number {
  const cutoff = now - olderThanMs
  if (cutoff < 0) return 0
  return connection.run(
    `DELETE FROM job_history
     WHERE namespace = ?1 AND id IN (SELECT id FROM job_history
       WHERE namespace = ?1 AND id < ?2 AND finished_at < ?3 ORDER BY id LIMIT ?4)`,
    namespace,
    createIds({ now: () => cutoff + clockSlackMs })(),
    cutoff,
    limit,
  )
}

function findLive(connection: Connection, namespace: string, id: string) {
  return connection.get<{ row: number; state: string; lease_no: number }>(
    'SELECT rowid AS row, state, lease_no FROM job_queue WHERE namespace = ?1 AND id = ?2',
    namespace,
    id,
  )
}

function findEnded(connection: Connection, namespace: string, id: string) {
  return connection.get<{ state: FinalState; queue: string; unique_key: string | null; meta: string | null }>(
    'SELECT state, queue, unique_key, meta FROM job_history WHERE namespace = ?1 AND id = ?2',
    namespace,
    id,
  )
}
