import type { Backoff } from '../core/backoff.ts'
import type { Failure } from '../core/describe-error.ts'
import type { JobLock } from './dependencies/dependency.ts'
import type { JobProgress } from './logs/progress.ts'

/**
 * A job, from the moment it is added until for ever after.
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

export { jobStates } from '../core/job-states.ts'

/** Why a job failed, as it is kept and shown. */
export type JobError = Failure

/** Whose run a job is. */
export interface JobSchedule {
  readonly name: string
  readonly slotAt: number | null
}

/** A job that another waits for, or that waits for it. */
export interface JobDependency {
  readonly id: string
  /** Null: it is gone. */
  readonly state: JobState | null
  /** Nobody waits for it any more. */
  readonly isMet: boolean
}

/** A job as its users see it. Instants are epoch milliseconds of the store's clock. */
export interface Job<Payload = unknown> {
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
  readonly tags: readonly string[]
  /** What the limits of its queue count it by; null: the queue alone. */
  readonly limitKey: string | null
  /** The line it stands in before each attempt; null: none. */
  readonly lock: JobLock | null
  /** The schedule that added it, and for which slot (null: out of turn); null: somebody else did. */
  readonly schedule: JobSchedule | null
  /** It runs, and somebody wants it cancelled. */
  readonly cancelRequested: boolean
  /** It completed although somebody wanted it cancelled. */
  readonly cancelIgnored: boolean
}

/** A job that was looked up by its id, with what its attempts said of themselves. */
export interface FoundJob<Payload = unknown> extends Job<Payload> {
  /** How far it is, or was at last, as its handler said; null: it did not say. */
  readonly progress: JobProgress | null
  /** How often it was put off without burning an attempt. */
  readonly snoozeCount: number
  /** The jobs it was added to wait for, up to 100. */
  readonly dependencies: readonly JobDependency[]
  /** The jobs that were added to wait for it, up to 100. */
  readonly dependents: readonly JobDependency[]
}

/** A job in somebody's hands: only who has the token can renew or end it. */
export interface ClaimedJob<Payload = unknown> extends Job<Payload> {
  /** The fence of its lock, to hand to whatever the lock guards; null: it has none. */
  readonly fence: number | null
  /** Opaque: a number that rises with every claim of the job, for ever, and a nonce. */
  readonly token: string
  readonly leaseEndsAt: number
  /** How often a worker handed it back without burning an attempt, because it stopped or lost its server. */
  readonly handBackCount: number
  /** How often it was put off without burning an attempt. */
  readonly snoozeCount: number
  /** Whose doing it is, as a W3C traceparent; null: nobody said. */
  readonly trace: string | null
}
