import type { FinalState, JobRecord, JobState, NewJob } from '../../jobs/index.ts'
import { limitKeyOf } from '../sql/limit-plan.ts'
import { expiredError } from '../token.ts'
import type { Line } from './ready-order.ts'

/** A job as memory keeps it. Whether a queued one is scheduled or ready is a matter of the moment. */
export interface Row extends Omit<NewJob, 'due' | 'dependsOn'> {
  stored: 'queued' | 'waiting' | 'running' | FinalState
  /** The line it stands in; null: it stands in none. */
  line: Line | null
  /** What the limits of its queue count it by; null: nothing. */
  readonly limitKey: string | null
  attempt: number
  handBackCount: number
  snoozeCount: number
  runAt: number
  createdAt: number
  startedAt: number | null
  finishedAt: number | null
  /** When it last began to wait for others or for its lock. */
  waitsSince: number
  workerId: string | null
  /** Rises with every claim, for ever. */
  leaseNo: number
  /** The live lease's token, null when the job is not held. */
  token: string | null
  leaseEndsAt: number
  /** The tokens of the attempts whose verdict was written. */
  settled: readonly string[]
  result: string | null
  error: string | null
  cancelRequested: boolean
  cancelIgnored: boolean
}

/** Of all who have none: there are far more rows that are kept than verdicts that are asked for. */
const none: readonly string[] = []

export function createRow(job: NewJob, now: number): Row {
  const { due, dependsOn: _, ...given } = job
  return {
    ...given,
    limitKey: limitKeyOf(job.meta),
    stored: 'queued',
    line: null,
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

/** What becomes of a job whose lease ran out. */
export function lapsesTo(row: Row): 'ready' | 'dead' | 'cancelled' {
  if (row.cancelRequested) return 'cancelled'
  return row.attempt >= row.maxAttempts ? 'dead' : 'ready'
}

/** The state at this moment, whether or not a process has acted on it yet. */
export function judge(row: Row, now: number): JobState {
  if (row.stored === 'queued') return row.runAt <= now ? 'ready' : 'scheduled'
  if (row.stored === 'running' && row.leaseEndsAt <= now) return lapsesTo(row)
  return row.stored
}

/**
 * The row as everybody sees it: a lease that ran out is shown as it will be once it is taken back. Field by field: to copy
 * an object without some of its properties takes many times as long, and every claim makes one of these.
 */
export function toRecord(row: Row, now: number): JobRecord {
  const state = judge(row, now)
  const lapsed = row.stored === 'running' && state !== 'running'
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
    finishedAt: lapsed && state !== 'ready' ? row.leaseEndsAt : row.finishedAt,
    workerId: row.workerId,
    leaseEndsAt: state === 'running' ? row.leaseEndsAt : null,
    backoff: row.backoff,
    timeoutMs: row.timeoutMs,
    meta: row.meta,
    result: row.result,
    error: lapsed && state === 'dead' ? expiredError : row.error,
    cancelRequested: state === 'running' && row.cancelRequested,
    cancelIgnored: row.cancelIgnored,
  }
}
