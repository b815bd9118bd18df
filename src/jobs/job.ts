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
 *                └── back-off ─────┴── hand-back ◀───┼── lease ran out ────────▶ ready
 *                                                    ├── no attempts left ─────▶ dead
 *                                                    └── cancelled ────────────▶ cancelled
 *
 * The first row lives in `job_queue`; completed, dead and cancelled live in `job_history`, and leave it only when an
 * operator retries or prunes them. A job that waits for others, or for a lock, is `waiting` before it is any of these.
 */
export type LiveState = 'scheduled' | 'ready' | 'waiting' | 'running'
export type FinalState = 'completed' | 'dead' | 'cancelled'
export type JobState = LiveState | FinalState

export { jobStates } from '../core/job-words.ts'

/** Why a job failed, as it is kept and shown. */
export type JobError = Failure

/** The schedule that added a job. */
export interface JobSchedule {
  readonly name: string
  readonly slotAt: number | null
}

/** A job that another waits for, or that waits for it. */
export interface JobDependency {
  readonly id: string
  /** Null: it is gone. */
  readonly state: JobState | null
  /** The dependent no longer waits for it. */
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
  /** How many times it was claimed, less the times it was handed back free; 0 before the first claim. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly runAt: number
  readonly createdAt: number
  /** When its last attempt really began. */
  readonly startedAt: number | null
  readonly finishedAt: number | null
  readonly result: unknown
  readonly error: JobError | null
  readonly workerId: string | null
  readonly backoff: Backoff
  readonly timeoutMs: number | null
  /** It runs, and its cancellation was requested. */
  readonly cancelRequested: boolean
  /** It completed although its cancellation was requested. */
  readonly cancelIgnored: boolean
}

/** A job that was found by its id, with its progress and its dependencies. */
export interface FoundJob<Payload = unknown> extends Job<Payload> {
  /** The latest progress that its handler reported; null: none. */
  readonly progress: JobProgress | null
  /** How often it was put off without burning an attempt. */
  readonly snoozeCount: number
  /** The jobs it was added to wait for, up to 100. */
  readonly dependencies: readonly JobDependency[]
  /** The jobs that were added to wait for it, up to 100. */
  readonly dependents: readonly JobDependency[]
  /** The attempts that failed or were lost, oldest first: the last 50. */
  readonly attempts: readonly JobAttempt[]
  /** The times in which it waited for other jobs or for its lock, oldest first. The one that lasts has no `endedAt`. */
  readonly blocked: readonly BlockedInterval[]
}

/** A claimed job. Only the holder of the token can renew or end it. */
export interface ClaimedJob<Payload = unknown> extends Job<Payload> {
  /** The fence of its lock, for the system that the lock protects; null: it has no lock. */
  readonly fence: number | null
  /** Opaque: a number that rises with every claim of the job, for ever, and a nonce. */
  readonly token: string
  readonly leaseEndsAt: number
  /** How often a worker handed it back without burning an attempt, because it stopped or lost its server. */
  readonly handBackCount: number
  /** How often it was put off without burning an attempt. */
  readonly snoozeCount: number
  /** The W3C traceparent of its cause; null: none was given. */
  readonly trace: string | null
}
