import type { FinalState } from '../../jobs/index.ts'
import type { Connection } from './connection.ts'

/** How a job leaves the queue for the history. What is undefined stays as the queue has it. */
export interface End {
  readonly row: number
  readonly state: FinalState
  readonly attempt?: number
  readonly freeCount?: number
  readonly startedAt?: number | undefined
  readonly result?: string | null
  readonly error?: string | null
  /** Somebody asked for its cancellation, so a row of job_cancel goes with it. */
  readonly cancelRequested: boolean
  /** Its lease ran out: no attempt's verdict was written, and nobody may find so. */
  readonly lapsed?: boolean
}

/**
 * Moves jobs to the history. All statements are in the caller's transaction, so each job is always in exactly one of
 * the two tables. Jobs that end in the very same way, as most of a batch do, are copied by one statement.
 */
export function endJobs(connection: Connection, ends: readonly End[], now: number): void {
  const [first] = ends
  if (!first) return
  if (ends.length === 1) {
    copyToHistory(connection, first, 'rowid = ?1', first.row, now)
    connection.run('DELETE FROM job_queue WHERE rowid = ?1', first.row)
    return
  }
  for (const alike of Map.groupBy(ends, sameness).values()) {
    const [one] = alike
    if (alike.length === 1) copyToHistory(connection, one!, 'rowid = ?1', one!.row, now)
    else copyToHistory(connection, one!, 'rowid IN (SELECT value FROM json_each(?1))', list(alike), now)
  }
  connection.run('DELETE FROM job_queue WHERE rowid IN (SELECT value FROM json_each(?1))', list(ends))
}

/** The same text for two ends that differ in nothing but their row; the lengths keep the last two apart. */
function sameness(end: End): string {
  const { state, attempt, freeCount, startedAt, cancelRequested, lapsed, result, error } = end
  const lengths = `${result?.length} ${error === undefined ? 'kept' : error?.length}`
  return `${state} ${attempt} ${freeCount} ${startedAt} ${cancelRequested} ${lapsed} ${lengths} ${result}${error}`
}

function list(ends: readonly End[]): string {
  return `[${ends.map(({ row }) => row).join()}]`
}

function copyToHistory(
  connection: Connection,
  end: End,
  which: 'rowid = ?1' | 'rowid IN (SELECT value FROM json_each(?1))',
  rows: number | string,
  now: number,
): void {
  connection.run(
    `INSERT INTO job_history (
       namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts, free_count, run_at,
       created_at, started_at, finished_at, worker_id, lease_no, lease_nonce, backoff, timeout_ms, result, error,
       cancel_ignored, settled_tokens)
     SELECT namespace, id, queue, kind, payload, priority, unique_key, ?2, coalesce(?3, attempt), max_attempts,
       coalesce(?4, free_count), run_at, created_at, coalesce(?5, started_at), ?6, worker_id, lease_no,
       iif(?7, NULL, lease_nonce), backoff, timeout_ms, ?8, iif(?9, error, ?10), ?11, settled_tokens
     FROM job_queue WHERE ${which}`,
    rows,
    end.state,
    end.attempt ?? null,
    end.freeCount ?? null,
    end.startedAt ?? null,
    now,
    end.lapsed ? 1 : 0,
    end.result ?? null,
    end.error === undefined ? 1 : 0,
    end.error ?? null,
    end.cancelRequested && end.state === 'completed' ? 1 : 0,
  )
  if (!end.cancelRequested) return
  connection.run(
    `DELETE FROM job_cancel
     WHERE (namespace, job_id) IN (SELECT namespace, id FROM job_queue WHERE ${which})`,
    rows,
  )
}
