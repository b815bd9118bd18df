import type { JobRecord, JobState } from '../../jobs/index.ts'

/**
 * A job as the SQL engines' statements return it: column names in snake case, numbers as numbers or as decimal text.
 */
export interface JobRow {
  readonly id: string
  readonly queue: string
  readonly kind: string
  readonly payload: string
  readonly priority: number
  readonly unique_key: string | null
  readonly state: string
  readonly attempt: number
  readonly max_attempts: number
  readonly hand_back_count: number
  readonly snooze_count: number
  readonly run_at: number | string
  readonly created_at: number | string
  readonly started_at: number | string | null
  readonly finished_at: number | string | null
  readonly worker_id: string | null
  readonly lease_ends_at: number | string | null
  readonly backoff: string | null
  readonly timeout_ms: number | string | null
  readonly meta: string | null
  readonly result: string | null
  readonly error: string | null
  readonly cancel_requested: boolean | number
  readonly cancel_ignored: boolean | number
}

export function decodeJobRow(row: JobRow): JobRecord {
  return {
    id: row.id,
    queue: row.queue,
    kind: row.kind,
    payload: row.payload,
    priority: row.priority,
    uniqueKey: row.unique_key,
    state: row.state as JobState,
    attempt: row.attempt,
    maxAttempts: row.max_attempts,
    handBackCount: row.hand_back_count,
    snoozeCount: row.snooze_count,
    runAt: Number(row.run_at),
    createdAt: Number(row.created_at),
    startedAt: instant(row.started_at),
    finishedAt: instant(row.finished_at),
    workerId: row.worker_id,
    leaseEndsAt: instant(row.lease_ends_at),
    backoff: row.backoff,
    timeoutMs: instant(row.timeout_ms),
    meta: row.meta,
    result: row.result,
    error: row.error,
    cancelRequested: Boolean(row.cancel_requested),
    cancelIgnored: Boolean(row.cancel_ignored),
  }
}

function instant(value: number | string | null): number | null {
  return value === null ? null : Number(value)
}
