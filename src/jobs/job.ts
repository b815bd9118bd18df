import type { Backoff } from '../core/backoff.ts'
import type { Failure } from '../core/describe-error.ts'
import type { BlockedInterval, JobAttempt } from './attempts/attempt-reads.ts'
import type { JobFacts } from './job-facts.ts'
import type { JobProgress } from './logs/job-logs.ts'

/**
 * The life of a job.
 *
 *     add ──▶ scheduled ──due──▶ ready ──claim──▶ running ──ack──▶ completed
 *                ▲                 ▲                 ├── nack, attempts left ──▶ scheduled
 *                └── back-off ─────┴── hand-back ◀───┼── lease expired ────────▶ ready
 *                                                    ├── no attempts left ─────▶ dead
 *                                                    └── cancelled ────────────▶ cancelled
 *
 * Live jobs are rows of `job_queue`. Completed, dead and cancelled jobs are rows of `job_history` until an operator
 * retries or removes them, or the retention ends. A job with a dependency or a lock is `waiting` before the first of
 * these states.
 */
export type LiveState = 'scheduled' | 'ready' | 'waiting' | 'running'
export type FinalState = 'completed' | 'dead' | 'cancelled'
export type JobState = LiveState | FinalState

export { jobStates } from '../core/job-words.ts'

/** The reason why a job failed. */
export type JobError = Failure

/** The schedule that added a job. */
export interface JobSchedule {
  readonly name: string
  readonly slotAt: number | null
}

/** A dependency or a dependent of a job. */
export interface JobDependency {
  readonly id: string
  /** Null: the job is gone. */
  readonly state: JobState | null
  /** Whether the dependency is met: the dependent no longer waits for it. */
  readonly isMet: boolean
}

/** A job as its users see it. Instants are epoch milliseconds of the store's clock. */
export interface Job<Payload = unknown> extends JobFacts {
  readonly id: string
  readonly queue: string
  readonly kind: string
  readonly payload: Payload
  /** Higher goes first. */
  readonly priority: number
  readonly uniqueKey: string | null
  readonly state: JobState
  /** How often it was claimed, not counting claims that used up no attempt; 0 before the first claim. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly runAt: number
  readonly createdAt: number
  /** When the handler of its last attempt began. */
  readonly startedAt: number | null
  readonly finishedAt: number | null
  readonly result: unknown
  readonly error: JobError | null
  readonly workerId: string | null
  readonly backoff: Backoff
  readonly timeoutMs: number | null
  /** The job runs, and its cancellation was requested. */
  readonly cancelRequested: boolean
  /** The job completed although its cancellation was requested. */
  readonly cancelIgnored: boolean
}

/** A job that was found by its id, with its progress and its dependencies. */
export interface FoundJob<Payload = unknown> extends Job<Payload> {
  /** The latest progress that its handler reported; null: none. */
  readonly progress: JobProgress | null
  /** How often its handler snoozed it, which uses up no attempt. */
  readonly snoozeCount: number
  /** The jobs that it depends on, up to 100. */
  readonly dependencies: readonly JobDependency[]
  /** The jobs that depend on it, up to 100. */
  readonly dependents: readonly JobDependency[]
  /** The attempts that failed or were lost, oldest first: the last 50. */
  readonly attempts: readonly JobAttempt[]
  /**
   * The intervals in which it waited for other jobs or for its lock, oldest first. The present one has no `endedAt`.
   */
  readonly blocked: readonly BlockedInterval[]
}

/** A claimed job. Only the holder of the token can renew or end it. */
export interface ClaimedJob<Payload = unknown> extends Job<Payload> {
  /** The fence of its lock, for the system that the lock protects; null: it has no lock. */
  readonly fence: number | null
  /** Opaque: a number that rises with every claim of the job, and a nonce. */
  readonly token: string
  readonly leaseEndsAt: number
  /** How often a worker handed it back without using up an attempt, because the worker stopped or lost its server. */
  readonly handBackCount: number
  /** How often its handler snoozed it, which uses up no attempt. */
  readonly snoozeCount: number
  /** The W3C traceparent of its cause; null: none was given. */
  readonly trace: string | null
}
