import type { CallerTransaction, TransactionEnder } from '../core/caller-transaction.ts'
import type { NewDependencies } from './dependencies/dependency-store.ts'
import type { FinalState, JobState, LiveState } from './job.ts'
import type { QueueLimits } from './queue-limits.ts'

/**
 * The job store of an engine. It keeps rows, order and leases; `lifecycle.ts` decides why a job fails, waits or dies.
 * Each operation is one atomic step and uses the store's clock, never the caller's.
 *
 * A lease is (job, token). It is live while its row says so and `leaseEndsAt` is after the store's clock. Renewing and
 * settling need a live lease: an expired lease is lost even before it is reclaimed, so a verdict never depends on when
 * the reclaim runs. Claiming, finding and listing also judge leases and due times at the moment of the call.
 *
 * Payload, result, error, back-off and meta are JSON text that the store keeps byte for byte. Of `meta` the store reads
 * only the `limitKey`, by which the limits of a queue count.
 */
export interface JobStore extends TransactionEnder {
  /**
   * Writes all jobs or none, and answers in order. If a live job of the queue has the same unique key (compared byte by
   * byte), the store does not write the new job: it returns the live job's id with `duplicate: true`. This also holds
   * when two adds race, and within one call. With `tx`: in the caller's transaction.
   *
   * The store writes a job with dependencies as `waiting`, with its dependencies in the same transaction. A dependency
   * on a duplicate of the same call becomes a dependency on the live job.
   *
   * The caller wakes the topics `wakeUps` afterwards. A store whose notifier is the database may send them with the
   * write.
   */
  add(jobs: readonly NewJob[], tx?: unknown, wakeUps?: readonly string[]): Promise<readonly Added[]>

  /**
   * Adds a due job without a unique key and leases it to the claimer in the same step. So an idle worker of the same
   * process starts it after one commit instead of two. The store does this only if the job is next anyway: its queue is
   * empty and not paused, and no lease has expired. Undefined: nothing was written. Engines that gain nothing leave it
   * out.
   */
  addClaimed?(job: NewJob, request: ClaimRequest): Promise<ClaimedRecord | undefined>

  /**
   * Leases due jobs by priority (higher first), then due time, then id, over all the queues together; each job to one
   * claimer. `attempt` rises here. Jobs whose lease expired are included; jobs of a paused queue or another kind never
   * are.
   *
   * Of a queue with limits it leases as many jobs as have capacity, and marks them `limited`. A `limitKey` without
   * capacity delays no other key. One claim reads up to 1,000 keys with ready jobs, in the order of claims; the next
   * one continues behind them.
   */
  claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]>

  /**
   * Extends the leases that are still live; never shortens one. Returns the live leases, in any order. An engine may
   * renew all jobs of one claim together.
   */
  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly Renewal[]>

  /**
   * Writes the verdicts whose lease is live. Returns, in order, whether each was written. If cancellation was
   * requested, a verdict that would make the job live again writes `cancelled`, and a verdict that completes it sets
   * `cancelIgnored`.
   */
  settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]>

  /**
   * The same for one verdict, in the caller's open transaction. Throws `invalid_argument` (not a transaction of this
   * engine's drivers, or a pool), `transaction_required` (not in a transaction), `wrong_database`, and errors of the
   * database. After false or an error the caller must not commit: see `endTransaction`.
   */
  settleIn(tx: unknown, verdict: Verdict): Promise<boolean>

  /**
   * Runs `work` in a transaction, writes the verdict that it returns, then commits. The store rolls back when `work`
   * throws (and throws that error), when the lease is lost (`lease_lost`), when the transaction takes longer than
   * `timeoutMs` (`transaction_timeout`), and when the database aborts it (`transaction_conflict`: deadlock,
   * serialisation, lock wait). If the answer to COMMIT is lost: `commit_unknown`.
   */
  transact(work: (tx: StoreTransaction) => Promise<Verdict>, options: TransactOptions): Promise<void>

  /**
   * The same for several, under one commit, each in a savepoint. Returns, in order, the error of each, or undefined if
   * it was committed. Throws only when the commit failed: then nothing was written.
   */
  transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]>

  /** The outcomes of these attempts, in order. Never waits for another transaction. */
  outcomes(leases: readonly LeaseRef[]): Promise<readonly AttemptOutcome[]>

  /** Returns the ids of those running jobs whose cancellation was requested. */
  cancelRequests(leases: readonly LeaseRef[]): Promise<readonly string[]>

  /**
   * Reclaims up to `limit` jobs whose lease expired: `ready` at their old `runAt` if attempts are left, else `dead`
   * with the error `expired`; `cancelled` if that was requested. `claim` does this by itself.
   */
  reclaim(
    limit: number,
  ): Promise<{ readonly ready: number; readonly dead: number; readonly cancelled: number }>

  find(id: string): Promise<JobRecord | undefined>
  /** Newest first, by id; `before` is the last id of the page before. */
  list(query: ListQuery): Promise<readonly JobRecord[]>
  /**
   * Returns an id such that at most `rows` live and `rows` ended jobs lie between it and `before`. So a list down to
   * this id has a bounded cost. Null: no more jobs lie below, or the list bounds itself.
   */
  reach(query: ReachQuery): Promise<string | null>

  /** Jobs of a queue in the order of their ends, then of their ids. */
  ends(query: EndedQuery): Promise<readonly JobEnd[]>

  /**
   * Ends a job that is not running, or requests the cancellation of a running job. An ended job stays as it is.
   * Undefined: no such job.
   */
  cancel(id: string): Promise<CancelAnswer | undefined>
  /**
   * Makes an ended job ready again, with the same id and attempt 0; the number in its tokens keeps rising. A live job
   * that is not running becomes due now, with attempt 0. A running job stays as it is. `taken`: another live job has
   * its unique key.
   */
  retry(id: string): Promise<RetryAnswer | undefined>
  /** Retries up to `limit` dead jobs, oldest first, except jobs whose key is taken. Returns their number. */
  retryDead(query: {
    readonly queue?: string
    readonly kind?: string
    readonly limit: number
  }): Promise<number>

  /** Live and dead jobs by queue. The cost does not grow with the jobs of a queue. */
  stats(): Promise<readonly QueueStats[]>
  pause(queue: string): Promise<void>
  resume(queue: string): Promise<void>
  /** Sets the limits of a queue; null removes them. They apply to every later claim, in every process. */
  setLimits(queue: string, limits: QueueLimits | null): Promise<void>
  /**
   * Deletes these jobs with their logs, except running jobs. A job whose lease expired no longer counts as running.
   * Returns the ids of the deleted jobs, in any order.
   */
  remove(ids: readonly string[]): Promise<readonly string[]>
  /** Deletes up to `limit` jobs that ended at least `olderThanMs` ago. Returns their number. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** A store that passes every call to this one. Spread it into a store that changes some of the calls. */
export function forwardJobStore(store: JobStore): JobStore {
  return {
    ...(store.addClaimed && { addClaimed: (job, request) => store.addClaimed!(job, request) }),
    add: (jobs, tx, wakeUps) => store.add(jobs, tx, wakeUps),
    claim: (request) => store.claim(request),
    renew: (leases, leaseMs) => store.renew(leases, leaseMs),
    settle: (verdicts) => store.settle(verdicts),
    settleIn: (tx, verdict) => store.settleIn(tx, verdict),
    endTransaction: (tx, error) => store.endTransaction(tx, error),
    transact: (work, options) => store.transact(work, options),
    transactAll: (works, options) => store.transactAll(works, options),
    outcomes: (leases) => store.outcomes(leases),
    cancelRequests: (leases) => store.cancelRequests(leases),
    reclaim: (limit) => store.reclaim(limit),
    find: (id) => store.find(id),
    list: (query) => store.list(query),
    reach: (query) => store.reach(query),
    ends: (query) => store.ends(query),
    cancel: (id) => store.cancel(id),
    retry: (id) => store.retry(id),
    retryDead: (query) => store.retryDead(query),
    stats: () => store.stats(),
    pause: (queue) => store.pause(queue),
    resume: (queue) => store.resume(queue),
    setLimits: (queue, limits) => store.setLimits(queue, limits),
    remove: (ids) => store.remove(ids),
    prune: (request) => store.prune(request),
  }
}

/** A job to write, complete and checked. */
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
  /** Facts about the job, as JSON text; null: none. The store reads only `limitKey`. */
  readonly meta: string | null
  /** The dependencies that block it. Left out or null: none. */
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
  /**
   * At the moment of the call: a due `scheduled` job is `ready`, and a job whose lease expired is `ready` or `dead`.
   */
  readonly state: JobState
  readonly attempt: number
  /** How often a worker handed it back without using up an attempt. */
  readonly handBackCount: number
  /** How often its handler snoozed it, which uses up no attempt either. */
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
  /** The text that replaces values hidden from the reader. A store does not set it. */
  readonly hiddenAs?: string
  /** The group of the error, if some of the error is hidden. A store does not set it. */
  readonly errorGroup?: string
}

/** A job that was just claimed. */
export interface ClaimedRecord extends JobRecord {
  readonly token: string
  readonly leaseEndsAt: number
  /** Its queue has limits: its end may free capacity for another job. */
  readonly limited?: true
  /** The fence of its lock; the dependent job store fills it in. */
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

/** The decision how an attempt ends. */
export interface Verdict extends LeaseRef {
  /** `ready`: at once and with the old `runAt`, so it keeps its order. `scheduled`: `delayMs` from the store's now. */
  readonly state: FinalState | Exclude<LiveState, 'running' | 'waiting'>
  readonly attempt: number
  readonly handBackCount: number
  readonly snoozeCount: number
  /** For `scheduled`; with 0 the job can be claimed at once. */
  readonly delayMs: number
  /** The time since the handler began, so that `startedAt` is the real start; null: it began at the claim. */
  readonly ranMs: number | null
  readonly result: string | null
  readonly error: string | null
}

/**
 * `settled`: this attempt ended and its verdict was written. `held`: its lease is live and nothing was written.
 * `lost`: neither.
 */
export type AttemptOutcome = 'settled' | 'held' | 'lost'

/** The transaction in which a handler writes its data and the store writes the verdict. */
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
  /** The time limit; 0 means the engine's own limit (SQLite: 5 s or a third of the lease; elsewhere none). */
  readonly timeoutMs: number
  /** The lease of the jobs that it ends, if known: an engine with one writer must let renewals through in time. */
  readonly leaseMs?: number
  /** When it aborts, the store rolls the transaction back and throws the signal's reason. */
  readonly signal?: AbortSignal
}

export interface ListQuery {
  readonly queue?: string
  readonly kind?: string
  readonly state?: JobState
  readonly limit: number
  readonly before?: string
  /** Excludes jobs with a lower id: see `reach`. */
  readonly downTo?: string
}

export interface ReachQuery {
  readonly before?: string
  /** 1 or more. */
  readonly rows: number
  /** Counts only these jobs: the list reads no others. @default both */
  readonly among?: 'live' | 'ended'
}

export interface EndedQuery {
  readonly queue: string
  /** Jobs that ended then or later. */
  readonly from: number
  /** Of the jobs that ended exactly at `from`, only those with a higher id. */
  readonly after?: string
  readonly limit: number
}

/** The end of a job. */
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
  /** The time since which its oldest ready job could be claimed; null if no job is ready. */
  readonly oldestReadyAt: number | null
}
