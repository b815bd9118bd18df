import type { Backoff } from '../core/backoff.ts'
import type { Attempt } from './attempt.ts'
import { decodeBackoff, decodeError, decodePayload } from './decode.ts'
import type { ClaimedJob, JobError, JobState } from './job.ts'
import type { AckOptions, Ended, NackOptions } from './jobs.ts'
import type { ClaimedRecord, StoreTransaction } from './store.ts'

/** A job in its handler's hands, with the three ways to finish it: returning or throwing is the third. */
export interface HandlerJob<Payload = unknown> extends ClaimedJob<Payload> {
  /** Runs `work` in a transaction, completes the job in it with what `work` returns, and commits both or nothing. */
  transaction<Result>(
    work: (tx: StoreTransaction) => Promise<Result> | Result,
    options?: { readonly timeoutMs?: number | string },
  ): Promise<Result>
  /** Completes the job; with `tx` in your own transaction, when you commit. */
  ack(options?: AckOptions): Promise<Ended>
  /** Fails the job; with `tx` in your own transaction, when you commit. */
  nack(options?: NackOptions): Promise<Ended>
}

/** The job as its handler sees it: its fields, and the three ways to finish. */
export class RunningJob implements HandlerJob {
  readonly #attempt: Attempt
  readonly id: string
  readonly queue: string
  readonly kind: string
  readonly payload: unknown
  readonly priority: number
  readonly uniqueKey: string | null
  readonly state: JobState = 'running'
  readonly attempt: number
  readonly maxAttempts: number
  readonly freeCount: number
  readonly runAt: number
  readonly createdAt: number
  readonly startedAt: number | null
  readonly finishedAt = null
  readonly result = null
  readonly error: JobError | null
  readonly workerId: string | null
  readonly backoff: Backoff
  readonly timeoutMs: number | null
  readonly cancelRequested: boolean
  readonly cancelIgnored = false
  readonly token: string
  readonly leaseEndsAt: number

  /** Field by field and without spreading: it is made for every job. */
  constructor(attempt: Attempt, record: ClaimedRecord) {
    this.#attempt = attempt
    this.id = record.id
    this.queue = record.queue
    this.kind = record.kind
    this.payload = decodePayload(record)
    this.priority = record.priority
    this.uniqueKey = record.uniqueKey
    this.attempt = record.attempt
    this.maxAttempts = record.maxAttempts
    this.freeCount = record.freeCount
    this.runAt = record.runAt
    this.createdAt = record.createdAt
    this.startedAt = record.startedAt
    this.error = decodeError(record.error)
    this.workerId = record.workerId
    this.backoff = decodeBackoff(record.backoff)
    this.timeoutMs = record.timeoutMs
    this.cancelRequested = record.cancelRequested
    this.token = record.token
    this.leaseEndsAt = record.leaseEndsAt
  }

  transaction<Result>(
    work: (tx: StoreTransaction) => Promise<Result> | Result,
    options?: { readonly timeoutMs?: number | string },
  ): Promise<Result> {
    return this.#attempt.transaction(work, options)
  }

  ack(options?: AckOptions): Promise<Ended> {
    return this.#attempt.ack(options)
  }

  nack(options?: NackOptions): Promise<Ended> {
    return this.#attempt.nack(options)
  }
}
