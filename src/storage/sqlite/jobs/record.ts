import type { JobRecord } from '../../../jobs/index.ts'
import { expiredError } from '../../expired-error.ts'
import { decodeJobRow, type JobRow } from '../../sql/job-row.ts'
import { lapsesTo } from './lapse.ts'

/** What a read selects of a live job, as `q`; in the order of `historyColumns`, so that the two can be one list. */
export const liveColumns = `q.id, q.queue, q.kind, q.payload, q.priority, q.unique_key, q.state, q.attempt,
    q.max_attempts, q.hand_back_count, q.snooze_count, q.run_at, q.created_at, q.started_at, NULL AS finished_at,
    q.worker_id, q.lease_ends_at, q.backoff, q.timeout_ms, q.meta, NULL AS result, q.error,
    q.state = 'running' AND EXISTS (SELECT 1 FROM job_cancel c
      WHERE c.namespace = q.namespace AND c.job_id = q.id AND c.lease_no = q.lease_no) AS cancel_requested,
    0 AS cancel_ignored`

/** The same of a job that has ended, as `h`. */
export const historyColumns = `h.id, h.queue, h.kind, h.payload, h.priority, h.unique_key, h.state, h.attempt,
    h.max_attempts, h.hand_back_count, h.snooze_count, h.run_at, h.created_at, h.started_at, h.finished_at, h.worker_id,
    NULL AS lease_ends_at, h.backoff, h.timeout_ms, h.meta, h.result, h.error, 0 AS cancel_requested,
    h.cancel_ignored`

/** A row as it is at `now`: due is ready, and a lease that ran out shows as it will once it is taken back. */
export function decodeRow(row: JobRow, now: number): JobRecord {
  const record = decodeJobRow(row)
  if (record.state === 'scheduled' && record.runAt <= now) return { ...record, state: 'ready' }
  if (record.state !== 'running' || record.leaseEndsAt! > now) return record
  const state = lapsesTo({
    cancel_requested: Number(row.cancel_requested),
    attempt: record.attempt,
    max_attempts: record.maxAttempts,
  })
  return {
    ...record,
    state,
    leaseEndsAt: null,
    finishedAt: state === 'ready' ? null : record.leaseEndsAt,
    error: state === 'dead' ? expiredError : record.error,
    cancelRequested: false,
  }
}
