import { lostError } from '../../attempt-error.ts'
import { expiredError } from '../../token.ts'
import type { Moment } from '../connection/connection.ts'
import { type End, endJobs, keepAttempt } from './end-job.ts'

/**
 * Jobs with an expired lease. Every code path treats them alike: they become `cancelled` if that was requested, `dead`
 * without further attempts, otherwise `ready` again. A ready job keeps its due time, and so its position.
 */
export interface LapsedRow {
  readonly row: number
  readonly attempt: number
  readonly max_attempts: number
  readonly cancel_requested: number
  readonly lease_ends_at: number
}

const columns = `rowid AS row, attempt, max_attempts, lease_ends_at,
    EXISTS (SELECT 1 FROM job_cancel c
      WHERE c.namespace = q.namespace AND c.job_id = q.id AND c.lease_no = q.lease_no) AS cancel_requested`

export function lapsesTo({
  cancel_requested,
  attempt,
  max_attempts,
}: Omit<LapsedRow, 'row' | 'lease_ends_at'>): 'ready' | 'dead' | 'cancelled' {
  if (cancel_requested) return 'cancelled'
  return attempt >= max_attempts ? 'dead' : 'ready'
}

/** Takes back up to `limit` jobs with an expired lease, the longest overdue first. Returns the new state of each. */
export function takeBackLapsed(moment: Moment, limit: number): readonly ('ready' | 'dead' | 'cancelled')[] {
  const { connection, namespace, now } = moment
  const rows = connection.all<LapsedRow>(
    `SELECT ${columns} FROM job_queue q
     WHERE namespace = ?1 AND state = 'running' AND lease_ends_at <= ?2
     ORDER BY lease_ends_at LIMIT ?3 + 0`,
    namespace,
    now,
    limit,
  )
  return takeBack(moment, rows)
}

/** Takes back this job if its lease expired, so that the caller sees its current state. */
export function takeBackIfLapsed(moment: Moment, id: string): void {
  const { connection, namespace, now } = moment
  const row = connection.get<LapsedRow>(
    `SELECT ${columns} FROM job_queue q
     WHERE namespace = ?1 AND id = ?2 AND state = 'running' AND lease_ends_at <= ?3`,
    namespace,
    id,
    now,
  )
  if (row) takeBack(moment, [row])
}

function takeBack(moment: Moment, rows: readonly LapsedRow[]): readonly ('ready' | 'dead' | 'cancelled')[] {
  const { connection, now } = moment
  const ends: End[] = []
  const states = rows.map((lapsed) => {
    const state = lapsesTo(lapsed)
    keepAttempt(connection, lapsed.row, { outcome: 'lost', endedAt: lapsed.lease_ends_at, error: lostError })
    const end = { row: lapsed.row, cancelRequested: lapsed.cancel_requested === 1, lapsed: true }
    if (state === 'dead') ends.push({ ...end, state, error: expiredError })
    else if (state === 'cancelled') ends.push({ ...end, state })
    else {
      connection.run(
        `UPDATE job_queue SET state = 'ready', lease_nonce = NULL, lease_ends_at = NULL, updated_at = ?2
         WHERE rowid = ?1`,
        lapsed.row,
        now,
      )
    }
    return state
  })
  endJobs(moment, ends)
  return states
}
