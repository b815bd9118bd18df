import type { CallerTransaction, TransactionEnder } from '../core/caller-transaction.ts'
import type { NewDependencies } from './dependencies/dependency-store.ts'
import type { FinalState, JobState, LiveState } from './job.ts'
import type { QueueLimits } from './queue-limits.ts'

/**
 * The job store of an engine. It keeps rows, order and leases; `lifecycle.ts` decides why a job fails, waits or dies. Each
 * operation is one atomic step and reads the store's clock; none takes the time from outside.
 *
 * A lease is (job, token). It is live while its row says so and `leaseEndsAt` is after the store's clock. Renewing and
 * settling need a live lease: an expired one is lost even before it is reclaimed, so a verdict never depends on the
 * timing of a sweeper. Claiming, finding and listing also judge leases and due times at the moment of the call.
 *
 * Payload, result, error, back-off and meta are JSON text that is kept byte for byte. Of `meta` a store reads only the
 * `limitKey`, by which the limits of a queue count.
 */
export interface JobStore extends TransactionEnder {
  /**
   * Writes all jobs or none, and answers in order. If a live job of the queue has the same unique key (compared byte by
   * byte), nothing is written for it and the answer is that job's id with `duplicate: true`; also when two adds race, and
   * within one call. With `tx`: in the caller's transaction.
   *
   * A job with dependencies is written as `waiting`, with its dependencies in the same transaction. A dependency on a
   * duplicate of the same call becomes a dependency on the job that was there.
   *
   * The caller wakes the topics `wakeUps` afterwards. A store whose notifier is the database may send them with the write.
   */
  add(jobs: readonly NewJob[], tx?: unknown, wakeUps?: readonly string[]): Promise<readonly Added[]>

  /**
   * Adds a job that is due and has no unique key, and leases it to the claimer in the same step: one commit instead of two
   * before an idle worker of the same process starts. Only if the job would be next anyway: its queue is empty and not
   * paused, and no lease has expired. Undefined: nothing was written. Engines that gain nothing by it leave it out.
   */
  addClaimed?(job: NewJob, request: ClaimRequest): Promise<ClaimedRecord | undefined>

  /**
   * Leases due jobs by priority (higher first), then due time, then id, over all the queues together; each job to one
   * claimer. `attempt` rises here. Includes jobs whose lease expired; never jobs of a paused queue or of another kind.
   *
   * Of a queue with limits it leases as many jobs as have capacity, and marks them `limited`. A `limitKey` without
   * capacity delays no other key. One claim reads up to 1,000 keys with ready jobs, in the order of claims; the next one
   * continues behind them.
   */
  claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]>

  /**
   * Extends the leases that are still live; never shortens one. Returns those, in any order. An engine may renew all jobs
   * of one claim together.
   */
  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]>

  /**
   * Writes the verdicts whose lease is live. Returns, in order, whether each was written. If cancellation was requested, a
   * verdict that would bring the job back writes `cancelled`, and one that completes it sets `cancelIgnored`.
   */
  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]>

  /**
   * The same for one verdict, in the caller's open transaction. Throws `invalid_argument` (not a transaction of this
   * engine's drivers, or a pool), `transaction_required` (not in a transaction), `wrong_database`, and errors of the
   * database. After false or an error the caller must not commit: see `endTransaction`.
   */
  settleIn(tx: unknown, verdict: Verdict): Promise<boolean>

  /**
   * Runs `work` in a transaction, writes the verdict that it returns, then commits. Nothing is
   * kept when `work` throws (that error is thrown on), when the lease is lost (`lease_lost`), when it takes longer than
   * `timeoutMs` (`transaction_timeout`), or when the database gives it up (`transaction_conflict`: deadlock,
   * serialisation, lock wait). When COMMIT's answer is lost: `commit_unknown`.
   */
  transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void>

  /**
   * The same for several, under one commit, each in a savepoint. Returns, in order, what each threw, or undefined when it
   * was committed. Throws only when the commit failed: then nothing was kept.
   */
  transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]>

  /** What became of these attempts, in order. Never waits for another transaction. */
  outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]>

  /** The ids of those of these running jobs whose cancellation was requested. */
  cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]>

  /**
   * Reclaims up to `limit` jobs whose lease expired: `ready` at their old `runAt` if attempts are left, else `dead` with
   * the error `expired`; `cancelled` if that was requested. `claim` does this by itself.
   */
  reclaim(
    limit: number,
  ): Promise<{ readonly ready: number; readonly dead: number; readonly cancelled: number }>

  find(id: string): Promise<JobRecord | undefined>
  /** Newest first, by id; `before` is the last id of the page before. */
  list(query: ListQuery): Promise<readonly JobRecord[]>
  /**
   * An id such that at most `rows` live and `rows` ended jobs lie between it and `before`. So a list down to it has a
   * bounded cost. Null: no more jobs lie below, or the list bounds itself.
   */
  reach(query: ReachQuery): Promise<string | null>

  /** Jobs of a queue in the order of their ends, then of their ids. */
  ends(query: EndedQuery): Promise<readonly JobEnd[]>

  /** Ends a job that is not running, or requests that of a running one. An ended job stays as it is. Undefined: no such job. */
  cancel(id: string): Promise<CancelAnswer | undefined>
  /**
   * Makes an ended job ready again, with the same id and attempt 0; its lease number continues to rise. A live job that is
   * not running becomes due now, with attempt 0. A running job stays as it is. `taken`: another live job has its unique key.
   */
  retry(id: string): Promise<RetryAnswer | undefined>
  /** `retry` for up to `limit` dead jobs, oldest first, except those whose key is taken. Returns how many. */
  retryDead(query: {
    readonly queue?: string
    readonly kind?: string
    readonly limit: number
  }): Promise<number>

  /** Live and dead jobs by queue. The cost does not grow with the jobs of a queue. */
  stats(): Promise<readonly QueueStats[]>
  pause(queue: string): Promise<void>
  resume(queue: string): Promise<void>
  /** Sets the limits of a queue; null removes them. They hold for every later claim, in every process. */
  setLimits(queue: string, limits: QueueLimits | null): Promise<void>
  /**
   * Deletes these jobs with their logs, those that ended and live ones that are not running; one that runs stays, and
   * one whose lease ran out runs no more. Answers the ids that were there and are gone now, in any order.
   */
  remove(ids: readonly string[]): Promise<readonly string[]>
  /** Deletes up to `limit` jobs that ended longer ago than that; answers how many. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** A job to be written, whole and checked. */
export interface NewJob {
  readonly id: string
  readonly queue: string
  readonly kind: string
  readonly payload: string
  readonly priority: number
  readonly uniqueKey: string | null
  /** An instant, or a wait from the store's now. `{ delayMs: 0 }` is ready at once. */
  readonly due: { readonly runAt: number } | { readonly delayMs: number }
  readonly maxAttempts: number
  readonly backoff: string | null
  readonly timeoutMs: number | null
  /** Words about the job, as JSON text; null: none. The store understands `limitKey` alone. */
  readonly meta: string | null
  /** What it waits for before it can be claimed. Left out or null: nothing. */
  readonly dependsOn?: NewDependencies | null
}

/** The answer to an add. */
export interface Added {
  readonly id: string
  readonly duplicate: boolean
}

export interface ClaimRequest {
  readonly queues: readonly string[]
  /** Only these kinds; null means any. */
  readonly kinds: readonly string[] | null
  readonly workerId: string
  readonly limit: number
  readonly leaseMs: number
}

/** A job as a store keeps it. */
export interface JobRecord extends Omit<NewJob, 'due' | 'dependsOn'> {
  /** As of the moment of the call: a due `scheduled` job is `ready`, one whose lease ran out is `ready` or `dead`. */
  readonly state: JobState
  readonly attempt: number
  /** How often a worker handed it back without burning an attempt. */
  readonly handBackCount: number
  /** How often its handler snoozed it, which burns no attempt either. */
  readonly snoozeCount: number
  readonly runAt: number
  readonly createdAt: number
  readonly startedAt: number | null
  readonly finishedAt: number | null
  readonly workerId: string | null
  readonly leaseEndsAt: number | null
  readonly result: string | null
  readonly error: string | null
  readonly cancelRequested: boolean
  readonly cancelIgnored: boolean
  /** The text that replaces values which are hidden from the reader; a store leaves it out. */
  readonly hiddenAs?: string
  /** The group of an error of which some is hidden; a store leaves it out. */
  readonly errorGroup?: string
}

/** A job that was just claimed. */
export interface ClaimedRecord extends JobRecord {
  readonly token: string
  readonly leaseEndsAt: number
  /** Its queue has limits: its end may free capacity for another. */
  readonly limited?: true
  /** The fence of its lock; `DependentJobStore` fills it in. */
  readonly fence?: number
}

/** One attempt. */
export interface LeaseRef {
  readonly jobId: string
  readonly token: string
}

export interface Renewal extends LeaseRef {
  readonly leaseEndsAt: number
  readonly cancelRequested: boolean
}

/** How an attempt ends. */
export interface Verdict extends LeaseRef {
  /** `ready`: at once and at its old `runAt`, so it keeps its place. `scheduled`: `delayMs` from the store's now. */
  readonly state: FinalState | Exclude<LiveState, 'running' | 'waiting'>
  readonly attempt: number
  readonly handBackCount: number
  readonly snoozeCount: number
  /** For `scheduled`; 0 may be claimed at once. */
  readonly delayMs: number
  /** How long ago the handler began, so that `startedAt` is the real start; null: at the claim. */
  readonly ranMs: number | null
  readonly result: string | null
  readonly error: string | null
}

/**
 * `settled`: this attempt ended and its verdict was written. `held`: its lease is live and nothing was written.
 * `lost`: neither.
 */
export type AttemptOutcome = 'settled' | 'held' | 'lost'

/** What a handler writes with, in the transaction that also ends its job. */
export interface StoreTransaction {
  /** Runs one statement with the engine's own placeholders: `$1` on Postgres, `?` elsewhere. */
  query(sql: string, params?: readonly unknown[]): Promise<QueryResult>
  /** The same as a template, with the same text on every engine: tx.sql`UPDATE t SET a = ${a}`. */
  sql(strings: TemplateStringsArray, ...params: readonly unknown[]): Promise<QueryResult>
  /** The driver's own connection. */
  readonly raw: CallerTransaction
}

export interface QueryResult {
  readonly rows: readonly Record<string, unknown>[]
  readonly rowCount: number
}

export interface TransactOptions {
  /** How long it may take; 0 means the engine's own bound (SQLite: 5 s or a third of the lease; elsewhere none). */
  readonly timeoutMs: number
  /** The lease of the jobs it ends, where it is known: an engine with one writer must let renewals through in time. */
  readonly leaseMs?: number
  /** When it aborts, the transaction is rolled back and its reason thrown. */
  readonly signal?: AbortSignal
}

export interface ListQuery {
  readonly queue?: string
  readonly kind?: string
  readonly state?: JobState
  readonly limit: number
  readonly before?: string
  /** No job with a lower id: see `reach`. */
  readonly downTo?: string
}

export interface ReachQuery {
  readonly before?: string
  /** 1 or more. */
  readonly rows: number
  /** Only these are counted: the list will look at no others. @default both */
  readonly among?: 'live' | 'ended'
}

export interface EndedQuery {
  readonly queue: string
  /** Jobs that ended then or later. */
  readonly from: number
  /** Of those that ended just then, only jobs with a higher id. */
  readonly after?: string
  readonly limit: number
}

/** That a job ended. */
export interface JobEnd extends Pick<JobRecord, 'id' | 'kind' | 'attempt' | 'createdAt' | 'startedAt'> {
  readonly state: FinalState
  readonly finishedAt: number
}

export interface CancelAnswer {
  readonly state: JobState
  readonly cancelRequested: boolean
}

export interface RetryAnswer {
  readonly outcome: 'ready' | 'running' | 'taken'
}

export interface QueueStats {
  readonly queue: string
  readonly paused: boolean
  readonly limits: QueueLimits | null
  readonly scheduled: number
  readonly ready: number
  readonly waiting: number
  readonly running: number
  readonly dead: number
  /** Whether a count is an estimate. Counts of a state below 10,000 are exact. */
  readonly approximate: boolean
  /** Since when its longest waiting ready job could have been claimed; null when none is ready. */
  readonly oldestReadyAt: number | null
}
