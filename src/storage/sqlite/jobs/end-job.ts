import type { FinalState } from '../../../jobs/index.ts'
import { boundAttemptError } from '../../attempt-error.ts'
import type { Connection, Moment } from '../connection/connection.ts'

/** How a job moves from the queue to the history. Undefined fields keep their value. */
export interface End {
  readonly row: number
  readonly state: FinalState
  readonly attempt?: number
  readonly handBackCount?: number
  readonly snoozeCount?: number
  readonly startedAt?: number | undefined
  readonly result?: string | null
  readonly error?: string | null
  /** The job has a cancellation request, so its row of job_cancel is deleted too. */
  readonly cancelRequested: boolean
  /** The lease expired: the attempt has no verdict, and later calls must not find one. */
  readonly lapsed?: boolean
}

/**
 * Moves jobs to the history. All statements are in the caller's transaction, so each job is always in exactly one of
 * the two tables. One statement copies all jobs of a batch that end in the same way.
 */
export function endJobs(moment: Moment, ends: readonly End[]): void {
  const { connection } = moment
  const [first] = ends
  if (!first) return
  if (ends.length === 1) {
    copyToHistory(moment, first, oneRow, first.row)
    connection.run('DELETE FROM job_queue WHERE rowid = ?1', first.row)
    return
  }
  for (const alike of Map.groupBy(ends, endKey).values()) {
    const [one] = alike
    if (alike.length === 1) copyToHistory(moment, one!, oneRow, one!.row)
    else copyToHistory(moment, one!, manyRows, list(alike))
  }
  connection.run('DELETE FROM job_queue WHERE rowid IN (SELECT value FROM json_each(?1))', list(ends))
}

const historyColumns = `
  namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts, hand_back_count,
  snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, lease_nonce, backoff, timeout_ms,
  meta, result, error, cancel_ignored, settled_tokens`

/** A text that is equal for two ends that differ only in their row. The lengths separate the last two parts. */
function endKey(end: End): string {
  const { state, attempt, handBackCount, snoozeCount, startedAt, cancelRequested, lapsed, result, error } =
    end
  const lengths = `${result?.length} ${error === undefined ? 'kept' : error?.length}`
  const counts = `${attempt} ${handBackCount} ${snoozeCount}`
  return `${state} ${counts} ${startedAt} ${cancelRequested} ${lapsed} ${lengths} ${result}${error}`
}

function list(ends: readonly End[]): string {
  return `[${ends.map(({ row }) => row).join()}]`
}

/** Each text is built once: a new string would be hashed again to find its prepared statement. */
function statements(which: string): { readonly copy: string; readonly uncancel: string } {
  return {
    copy: `
      INSERT INTO job_history (${historyColumns})
      SELECT namespace, id, queue, kind, payload, priority, unique_key, ?2, coalesce(?3, attempt), max_attempts,
        coalesce(?4, hand_back_count), coalesce(?5, snooze_count), run_at, created_at, coalesce(?6, started_at), ?7,
        worker_id, lease_no, iif(?8, NULL, lease_nonce), backoff, timeout_ms, meta, ?9, iif(?10, error, ?11), ?12,
        settled_tokens
      FROM job_queue WHERE ${which}`,
    uncancel: `
      DELETE FROM job_cancel
      WHERE (namespace, job_id) IN (SELECT namespace, id FROM job_queue WHERE ${which})`,
  }
}

const oneRow = statements('rowid = ?1')
const manyRows = statements('rowid IN (SELECT value FROM json_each(?1))')

function copyToHistory(
  { connection, now }: Moment,
  end: End,
  { copy, uncancel }: typeof oneRow,
  rows: number | string,
): void {
  connection.run(
    copy,
    rows,
    end.state,
    end.attempt ?? null,
    end.handBackCount ?? null,
    end.snoozeCount ?? null,
    end.startedAt ?? null,
    now,
    end.lapsed ? 1 : 0,
    end.result ?? null,
    end.error === undefined ? 1 : 0,
    end.error ?? null,
    end.cancelRequested && end.state === 'completed' ? 1 : 0,
  )
  if (end.cancelRequested) connection.run(uncancel, rows)
}

/** How a failed or lost attempt ended. Undefined fields keep the value of the queue's row. */
export interface EndedAttempt {
  readonly outcome: 'failed' | 'dead' | 'lost'
  readonly attempt?: number
  readonly startedAt?: number | undefined
  readonly endedAt: number
  readonly error: string
}

/**
 * Writes the row of an attempt in the transaction of its verdict, while its job is still in the queue. The row has the
 * release of the worker that ran when the attempt began.
 */
export function keepAttempt(
  connection: Connection,
  row: number,
  { outcome, attempt, startedAt, endedAt, error }: EndedAttempt,
): void {
  connection.run(
    `INSERT INTO job_attempt (namespace, job_id, number, attempt, queue, kind, outcome, worker_id, release, started_at,
       ended_at, error)
     SELECT namespace, id, lease_no, coalesce(?2, attempt), queue, kind, ?3, worker_id,
       (SELECT w.release_name FROM fleet_worker w
        WHERE w.namespace = q.namespace AND w.id = q.worker_id AND w.started_at <= q.started_at),
       coalesce(?4, started_at), ?5, ?6
     FROM job_queue q WHERE rowid = ?1 ON CONFLICT DO NOTHING`,
    row,
    attempt ?? null,
    outcome,
    startedAt ?? null,
    endedAt,
    boundAttemptError(error),
  )
}
