import type { FinalState, JobRecord, JobState, NewJob } from '../../jobs/index.ts'
import { limitKeyOf } from '../sql/limit-plan.ts'
import { expiredError } from '../token.ts'
import type { JobList } from './ready-order.ts'

/** A job in memory. The clock decides whether a queued job is scheduled or ready. */
export interface Row extends Omit<NewJob, 'due' | 'dependsOn'> {
  stored: 'queued' | 'waiting' | 'running' | FinalState
  /** The list that has the job; null: none. */
  list: JobList | null
  /** The key for the limits of the queue; null: none. */
  readonly limitKey: string | null
  attempt: number
  handBackCount: number
  snoozeCount: number
  runAt: number
  createdAt: number
  startedAt: number | null
  finishedAt: number | null
  /** When the job last began to wait for other jobs or for its lock. */
  waitsSince: number
  workerId: string | null
  /** Rises with every claim, and never falls. */
  leaseNo: number
  /** The token of the lease; null: the job is not held. */
  token: string | null
  leaseEndsAt: number
  /** The tokens of attempts whose verdict is written. */
  settled: readonly string[]
  result: string | null
  error: string | null
  cancelRequested: boolean
  cancelIgnored: boolean
}

/** One array for all rows without verdicts, because there are very many such rows. */
const none: readonly string[] = []

export function createRow(job: NewJob, now: number): Row {
  const { due, dependsOn: _, ...given } = job
  return {
    ...given,
    limitKey: limitKeyOf(job.meta),
    stored: 'queued',
    list: null,
    attempt: 0,
    handBackCount: 0,
    snoozeCount: 0,
    runAt: 'runAt' in due ? due.runAt : now + due.delayMs,
    createdAt: now,
    startedAt: null,
    finishedAt: null,
    waitsSince: now,
    workerId: null,
    leaseNo: 0,
    token: null,
    leaseEndsAt: 0,
    settled: none,
    result: null,
    error: null,
    cancelRequested: false,
    cancelIgnored: false,
  }
}

/** The next state of a job whose lease expired. */
export function stateAfterExpiry(row: Row): 'ready' | 'dead' | 'cancelled' {
  if (row.cancelRequested) return 'cancelled'
  return row.attempt >= row.maxAttempts ? 'dead' : 'ready'
}

/** The state at this moment, also if no process has reclaimed the job yet. */
export function judge(row: Row, now: number): JobState {
  if (row.stored === 'queued') return row.runAt <= now ? 'ready' : 'scheduled'
  if (row.stored === 'running' && row.leaseEndsAt <= now) return stateAfterExpiry(row)
  return row.stored
}

/**
 * The record of a row. A job with an expired lease has the state that it gets when it is reclaimed. Copies field by
 * field: a copy without some properties takes many times as long, and every claim needs one.
 */
export function toRecord(row: Row, now: number): JobRecord {
  const state = judge(row, now)
  const expired = row.stored === 'running' && state !== 'running'
  return {
    id: row.id,
    queue: row.queue,
    kind: row.kind,
    payload: row.payload,
    priority: row.priority,
    uniqueKey: row.uniqueKey,
    state,
    attempt: row.attempt,
    maxAttempts: row.maxAttempts,
    handBackCount: row.handBackCount,
    snoozeCount: row.snoozeCount,
    runAt: row.runAt,
    createdAt: row.createdAt,
    startedAt: row.startedAt,
    finishedAt: expired && state !== 'ready' ? row.leaseEndsAt : row.finishedAt,
    workerId: row.workerId,
    leaseEndsAt: state === 'running' ? row.leaseEndsAt : null,
    backoff: row.backoff,
    timeoutMs: row.timeoutMs,
    meta: row.meta,
    result: row.result,
    error: expired && state === 'dead' ? expiredError : row.error,
    cancelRequested: state === 'running' && row.cancelRequested,
    cancelIgnored: row.cancelIgnored,
  }
}
