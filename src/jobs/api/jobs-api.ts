import type { Backoff } from '../../core/backoff.ts'
import type { CallerTransaction } from '../../core/caller-transaction.ts'
import type { Duration } from '../../core/duration.ts'
import type { BulkVerbs } from '../bulk/bulk-operations.ts'
import type { ClaimedJob, FoundJob, Job } from '../job.ts'
import type { Added, CancelAnswer, QueueStats, Verdict } from '../job-store.ts'
import type { JobLogLine, LogsOptions, NoteOptions } from '../logs/job-logs.ts'
import type { LimitOptions, QueueLimits } from '../queue-limits.ts'
import type { Schedules } from '../schedules/schedules.ts'
import type { SearchPage } from '../search/search.ts'
import type { Worker } from '../worker/worker.ts'
import type { WorkerOptions } from '../worker/worker-options.ts'
import type { AddArguments, AddTarget } from './add-arguments.ts'
import type { AddOptions, ClaimOptions, JobToAdd, ListOptions } from './add-options.ts'

/**
 * The verbs of the room: what users, the server and the command line say to jobs. Options become plain records here,
 * the store writes them, the notifier wakes listeners after the commit.
 */
export interface Jobs extends AsyncDisposable, BulkVerbs {
  /** Jobs that are added by the clock. */
  readonly schedules: Schedules
  /**
   * Puts one job in line, by its kind or its definition: `add(kind, payload, options)`. Throws `invalid_argument` when the
   * payload does not fit the definition. With `tx`, in that transaction of yours: it exists when you commit.
   */
  add<const Target extends AddTarget>(
    kind: Target,
    ...rest: AddArguments<Target, AddOptions & AddInTransaction>
  ): Promise<Added>
  /** Puts many in line, all or none; answers in order. */
  addMany(jobs: readonly JobToAdd[], options?: AddInTransaction): Promise<readonly Added[]>
  /** Takes due jobs in hand, each under a lease. */
  claim(options?: ClaimOptions): Promise<readonly ClaimedJob[]>
  /** The job is done. Throws `lease_lost` when it is not yours any more; then nothing was written. */
  ack(job: Held, options?: AckOptions): Promise<Ended>
  /**
   * The job failed: back in line after its back-off, or dead when no attempts are left; cancelled when that was asked
   * for. Answers which. Throws `lease_lost`.
   */
  nack(job: Held, options?: NackOptions): Promise<Ended>
  /** Keeps the job for another `leaseMs`; answers when that ends. Throws `lease_lost`. */
  renew(job: Held, leaseMs?: Duration): Promise<{ leaseEndsAt: number; cancelRequested: boolean }>
  /** One job, with how far its handler says it is. */
  find(id: string): Promise<FoundJob | undefined>
  /** The log lines that handlers wrote about a job, by attempt and number. `cursor` is null at the end. */
  logs(id: string, options?: LogsOptions): Promise<{ items: readonly JobLogLine[]; cursor: string | null }>
  /** For a job that was claimed by hand: says how far it is, and writes log lines about it. Throws `lease_lost`. */
  note(job: Held, options: NoteOptions): Promise<void>
  /**
   * A page of the jobs that a search means, newest first, found among up to 50,000 jobs within about 120 ms. `stopped` says
   * which of the two ended it; `cursor` goes on from there. Throws `invalid_argument` where it does not parse.
   */
  list(options: ListOptions & { readonly search: string }): Promise<SearchPage>
  /**
   * A page of jobs, newest first. `cursor` is null at the end. Jobs of Signalbox's own queues are left out unless their
   * queue is named; where there are very many of them a page may come short, and its cursor goes on.
   */
  list(options?: ListOptions): Promise<{ items: readonly Job[]; cursor: string | null }>
  /** Ends a job that is not running, and asks the worker of one that is. Throws `not_found`. */
  cancel(id: string): Promise<CancelAnswer>
  /** Makes a job that ended ready again, with attempt 0. Throws `not_found`, `conflict`. */
  retry(id: string): Promise<{ id: string; state: 'ready' }>
  /** `retry` for dead jobs, oldest first; answers how many. */
  retryDead(options?: { queue?: string; kind?: string; limit?: number }): Promise<{ retried: number }>
  /** By queue, without Signalbox's own (`signalbox.…`). */
  stats(): Promise<readonly QueueStats[]>
  /** Nothing of the queue is handed out until it is resumed; what runs goes on. */
  pause(queue: string): Promise<void>
  resume(queue: string): Promise<void>
  /**
   * Sets how many of a queue's jobs may run at once and start in a time, over all processes; for the queue, and for each
   * `limitKey` in it. Null lifts the limits. They count from the next claim on.
   */
  setLimits(queue: string, limits: LimitOptions | null): Promise<QueueLimits | null>
  /** Forgets jobs that ended longer ago than that; answers how many. */
  prune(options: { olderThanMs: Duration }): Promise<{ pruned: number }>
  /**
   * Forgets up to 1,000 jobs, whether they wait or have ended, with all that is kept about them; one that runs stays.
   * Answers those that were there and are gone.
   */
  remove(ids: readonly string[]): Promise<{ removed: readonly string[] }>
  /** Tells waiting workers to look now; for jobs added in a transaction of yours, after its commit. */
  wake(queue: string): void
  /** A worker on this store. It does nothing until it is started; closing the box stops it. */
  worker(options: WorkerOptions): Worker
}

/** What a claim was answered with; id and token are enough. */
export type Held = Pick<ClaimedJob, 'id' | 'token'> & Partial<ClaimedJob>

export interface InTransaction {
  /** Your own open transaction on the same database. */
  readonly tx?: CallerTransaction | undefined
}

export interface AddInTransaction extends InTransaction {
  /**
   * With `tx` on Postgres: workers are told the moment you commit, instead of finding the job by their poll. It makes
   * commits that do so queue up behind each other, so it is not for busy tables. Without `tx` they are told anyway.
   * @default false
   */
  readonly notify?: boolean | undefined
}

export interface AckOptions extends InTransaction {
  /** Kept with the job: any JSON value. */
  readonly result?: unknown
  /** How long the handler ran, so that `startedAt` is its real start. @default since the claim */
  readonly ranMs?: number | undefined
}

export interface NackOptions extends InTransaction {
  /** Why: text, anything that was thrown, or any JSON value. An object is kept whole, as `error.details`. */
  readonly error?: unknown
  /** The job runs again after so long, whatever its back-off says. */
  readonly retryInMs?: Duration | undefined
  /**
   * The back-off after this failure, in place of the job's own; what is left out is as the job has it. The next failure
   * follows the job's own back-off again. @default the job's
   */
  readonly backoff?: Partial<Backoff> | undefined
  /** No further attempt. */
  readonly dead?: boolean | undefined
  /** Back in line at once without burning an attempt, as a stopping worker does; ten times a job, then it counts. */
  readonly handBack?: boolean | undefined
  /** Back in line after so long without burning an attempt, as often as you like. */
  readonly snoozeMs?: Duration | undefined
  /** How long the handler ran, so that `startedAt` is its real start. @default since the claim */
  readonly ranMs?: number | undefined
}

/** How an attempt ended: the state its job is in now. */
export interface Ended {
  readonly state: Verdict['state']
}
