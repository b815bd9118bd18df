import type { CallerTransaction, TransactionEnder } from '../core/caller-transaction.ts'
import type { NewDependencies } from './dependencies/dependency-store.ts'
import type { FinalState, JobState, LiveState } from './job.ts'
import type { QueueLimits } from './queue-limits.ts'
import type { StopSignal } from './stop-signal.ts'

/**
 * What jobs ask of a backend. A store keeps rows, order and leases; why a job fails, waits or dies is decided in
 * lifecycle.ts. Each operation is one atomic step and reads the store's own clock; none takes the time from outside.
 *
 * A lease is (job, token). It is live while its row says so and `leaseEndsAt` is after the store's clock. Renewing and
 * settling are conditional on a live lease: an expired one is lost, whether or not anybody has taken it back yet, so
 * the verdict never depends on a sweeper's timing. Claiming, finding and listing likewise judge leases and due times at
 * the moment of the call.
 *
 * Values users gave (payload, result, error, back-off, meta) come and go as JSON text that is kept byte for byte. Of
 * `meta` a store reads one word: its `limitKey`, which is what the limits of a queue are counted by.
 */
export interface JobStore extends TransactionEnder {
  /**
   * Writes all of them or none; answers in order. With a unique key that a live job of the queue has (compared byte
   * by byte), nothing is written for it and the answer is that job's id, `duplicate: true`; also when two adds race,
   * and within one call. With `tx`, in that transaction of the caller's.
   *
   * A job that depends on others is written `waiting`, with what it waits for in the same transaction. A dependency on a job of the same
   * call that came to a duplicate is a need for the job that was there.
   *
   * `wakeUps` are the topics that the caller will wake when it is done: a store whose notifier is the database itself may send
   * the wake-up along, behind the write. It may as well not.
   */
  add(jobs: readonly NewJob[], tx?: unknown, wakeUps?: readonly string[]): Promise<readonly Added[]>

  /**
   * Adds a job that is due and has no unique key, and hands it to the claimer in the same step: one commit instead of
   * two between a producer and a worker that stands idle beside it. Only if it would be the next anyway: no job waits
   * in its queue, no lease has run out, the queue is not paused. Undefined: nothing was written. Engines on which that
   * saves nothing leave it out.
   */
  addClaimed?(job: NewJob, request: ClaimRequest): Promise<ClaimedRecord | undefined>

  /**
   * Hands out due jobs under a new lease, by priority (higher first), then due time, then id, over all the queues
   * together; each to one claimer. `attempt` is counted here. Takes up what other claimers let run out, and never
   * hands out a job of a paused queue or of a kind not asked for.
   *
   * Of a queue with limits it hands out what they leave room for, and marks it `limited`. Among jobs of one `limitKey`
   * the order is as ever; a key without room holds up no other. It looks at up to 1,000 keys that have jobs ready, in the
   * order of claims over all of them together, and where there are more goes on behind them the next time.
   */
  claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]>

  /**
   * Claims that a worker sends without waiting for the answer to the one before are carried out in the order in which
   * they were sent. Engines on which they are not, or which gain nothing by it, leave it out and are asked one by one.
   */
  readonly claimsInOrder?: boolean

  /**
   * Keeps the leases that are still live: never shortens one. Answers for those that took, in any order. An engine may
   * keep jobs that were claimed together alive together; then the others are kept too.
   */
  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]>

  /**
   * Writes the verdicts whose lease is live; answers, for each in order, whether it took. A verdict that would bring
   * back a job whose cancellation was asked for writes `cancelled` instead; one that completes it notes `cancelIgnored`.
   */
  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]>

  /**
   * The same for one verdict, inside the caller's open transaction, which decides when it counts. Throws
   * `invalid_argument` (not a transaction of this engine's drivers, or a pool), `transaction_required` (not in a
   * transaction), `wrong_database`; whatever else the database says is passed on. Where the answer is no, or it throws,
   * the transaction may have failed, and the caller must not commit it: see `endTransaction`.
   */
  settleIn(tx: unknown, verdict: Verdict): Promise<boolean>

  /**
   * Runs `work` in a transaction of the store's own, then writes the verdict it answers, then commits. Nothing is
   * kept when `work` throws (that error is thrown on), when the lease is lost (`lease_lost`), when it takes longer than
   * `timeoutMs` (`transaction_timeout`), or when the database gives it up (`transaction_conflict`: deadlock,
   * serialisation, lock wait). When COMMIT's answer is lost: `commit_unknown`.
   */
  transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void>

  /**
   * Several transactions' worth of work under one commit, each in a savepoint of its own. Answers, in order, what each
   * threw, or undefined when it was committed. Throws only when the commit as a whole failed: then nothing was kept.
   */
  transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]>

  /** What has become of these attempts; in order. Never waits for another transaction. */
  outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]>

  /** Which of these running jobs somebody wants cancelled: their ids. */
  cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]>

  /**
   * Takes back up to `limit` jobs whose lease ran out: back to `ready` at their old `runAt` when attempts are left,
   * else `dead` with `expired` as its error; `cancelled` where that was asked for. `claim` does so by itself.
   */
  reclaim(
    limit: number,
  ): Promise<{ readonly ready: number; readonly dead: number; readonly cancelled: number }>

  find(id: string): Promise<JobRecord | undefined>
  /** Newest first, by id; `before` is the last id of the page before. */
  list(query: ListQuery): Promise<readonly JobRecord[]>
  /**
   * An id with no more than `rows` live and as many ended jobs from it up to `before`, so that a list down to it costs
   * so much and no more, whatever it looks for. Null: no more than these lie below, or the list bounds itself.
   */
  reach(query: ReachQuery): Promise<string | null>

  /** Ends a job that is not running; asks for it when it is. Undefined: no such job. A job that has ended stays as it is. */
  cancel(id: string): Promise<CancelAnswer | undefined>
  /**
   * Makes a dead, cancelled or completed job ready again, with its id, attempt 0 and a lease number that goes on
   * rising; makes a live one that is not running due now, attempt 0. `running` is left alone. `taken`: its unique key
   * belongs to another live job now.
   */
  retry(id: string): Promise<RetryAnswer | undefined>
  /** `retry` for up to `limit` dead jobs, oldest first; those whose key is taken are left. Answers how many took. */
  retryDead(query: {
    readonly queue?: string
    readonly kind?: string
    readonly limit: number
  }): Promise<number>

  /** Live and dead jobs by queue. */
  stats(): Promise<readonly QueueStats[]>
  pause(queue: string): Promise<void>
  resume(queue: string): Promise<void>
  /** Sets the limits of a queue, or lifts them with null. They count from then on, for every claim anywhere. */
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

/** What an add came to. */
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
export interface JobRecord {
  readonly id: string
  readonly queue: string
  readonly kind: string
  readonly payload: string
  readonly priority: number
  readonly uniqueKey: string | null
  /** As of the moment of the call: a due `scheduled` job is `ready`, one whose lease ran out is `ready` or `dead`. */
  readonly state: JobState
  readonly attempt: number
  readonly maxAttempts: number
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
  readonly backoff: string | null
  readonly timeoutMs: number | null
  /** As it was added. */
  readonly meta: string | null
  readonly result: string | null
  readonly error: string | null
  readonly cancelRequested: boolean
  readonly cancelIgnored: boolean
  /** What stands in the place of values that are hidden from whoever looks; a store leaves it out. */
  readonly hiddenAs?: string
}

/** A job just handed out. */
export interface ClaimedRecord extends JobRecord {
  readonly token: string
  readonly leaseEndsAt: number
  /** Its queue has limits: its end may make room for another. */
  readonly limited?: true
  /** The fence of its lock; a store leaves it out, what stands before it fills it in. */
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
  readonly signal?: StopSignal
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
  /** Since when its longest waiting ready job could have been claimed; null when none is ready. */
  readonly oldestReadyAt: number | null
}
