import { boundAttemptError } from '../../attempt-error.ts'
import type { Connection } from '../connection/connection.ts'

/** How an attempt ended that failed or was lost. What is undefined is as the queue has it. */
export interface EndedAttempt {
  readonly outcome: 'failed' | 'dead' | 'lost'
  readonly attempt?: number
  readonly startedAt?: number | undefined
  readonly endedAt: number
  readonly error: string
}

/** Writes the row of an attempt, with the release of the worker that ran when it began, in the transaction of its verdict, while its job is still in the queue. */
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
