import type { Contention } from '../../contention/index.ts'
import type { Backoff } from '../../core/backoff.ts'
import type { CallerTransaction } from '../../core/caller-transaction.ts'
import type { Clock } from '../../core/clock.ts'
import type { Duration } from '../../core/duration.ts'
import type { WorkerStore, WorkerVerbs, WorkerVia } from '../../fleet/workers/index.ts'
import type { ErrorGroupVerbs } from '../attempts/attempt-reads.ts'
import type { AttemptStore } from '../attempts/attempt-store.ts'
import type { BulkVerbs } from '../bulk/bulk-operations.ts'
import type { DependencyStore } from '../dependencies/dependency-store.ts'
import type { JobLocks } from '../dependencies/job-locks.ts'
import type { ClaimedJob, FoundJob, Job } from '../job.ts'
import type { Added, CancelAnswer, JobStore, QueueStats, Verdict } from '../job-store.ts'
import type { JobLogLine, LogsOptions, NoteOptions } from '../logs/job-logs.ts'
import type { AttemptLogStore } from '../logs/log-writer.ts'
import type { LimitOptions, QueueLimits } from '../queue-limits.ts'
import type { ScheduleStore } from '../schedules/schedule-store.ts'
import type { Schedules } from '../schedules/schedules.ts'
import type { ListOptions } from '../search/list-jobs.ts'
import type { SearchPage } from '../search/scan-jobs.ts'
import type { JobActivity } from '../telemetry/job-activity.ts'
import type { JobsTelemetry } from '../telemetry/telemetry.ts'
import type { JobWaits, WaitedJob, WaitOptions } from '../waiting/job-waits.ts'
import type { Worker } from '../worker/worker.ts'
import type { WorkerOptions } from '../worker/worker-options.ts'
import type { AddOptions, JobToAdd } from './add-options.ts'
import type { AnyDefinition, JobDefinition } from './define-job.ts'
import type { ClaimOptions } from './held-jobs.ts'

/**
 * The verbs of jobs, for users, the server and the command line. They turn options into records; the store writes them;
 * the notifier wakes workers after the commit.
 */
export interface Jobs extends AsyncDisposable, BulkVerbs, ErrorGroupVerbs, WorkerVerbs {
  /** Jobs that run at set times. */
  readonly schedules: Schedules
  /**
   * Adds one job by its kind or its definition: `add(kind, payload, options)`. Throws `invalid_argument` when the
   * payload does not fit the definition. With `tx`: in your transaction, so the job exists when you commit.
   */
  add<const Target extends AddTarget>(
    kind: Target,
    ...rest: AddArguments<Target, AddOptions & AddInTransaction>
  ): Promise<Added>
  /** Adds many jobs, all or none. Answers in order. */
  addMany(jobs: readonly JobToAdd[], options?: AddInTransaction): Promise<readonly Added[]>
  /** Claims due jobs, each under a lease. */
  claim(options?: ClaimOptions): Promise<readonly ClaimedJob[]>
  /** Completes the job. Throws `lease_lost` if it is no longer yours; then nothing was written. */
  ack(job: Held, options?: AckOptions): Promise<Ended>
  /**
   * The job failed: it runs again after its back-off, or is dead if no attempts are left, or cancelled if that was
   * requested. Returns the state. Throws `lease_lost`.
   */
  nack(job: Held, options?: NackOptions): Promise<Ended>
  /** Renews the lease for another `leaseMs`. Throws `lease_lost`. */
  renew(job: Held, leaseMs?: Duration): Promise<{ leaseEndsAt: number; cancelRequested: boolean }>
  /** One job, with its progress. */
  find(id: string): Promise<FoundJob | undefined>
  /**
   * Waits until the job has ended, or until `timeoutMs` is over: `{ status: 'ended', job }` has its result or error,
   * and `{ status: 'timeout', job }` has its present state. All waits of a process share their reads of the store.
   * Throws `not_found` (also when the job is deleted meanwhile) and `closed`.
   */
  wait(id: string, options?: WaitOptions): Promise<WaitedJob>
  /** The log lines that handlers wrote about a job, by attempt and number. `cursor` is null at the end. */
  logs(id: string, options?: LogsOptions): Promise<{ items: readonly JobLogLine[]; cursor: string | null }>
  /** Writes progress and log lines for a job that was claimed by hand. Throws `lease_lost`. */
  note(job: Held, options: NoteOptions): Promise<void>
  /**
   * A page of the jobs that match a search, newest first. It reads up to 50,000 jobs, for about 120 ms; `stopped` says
   * which of the two ended it, and `cursor` continues there. Throws `invalid_argument` if the search does not parse.
   */
  list(options: ListOptions & { readonly search: string }): Promise<SearchPage>
  /**
   * A page of jobs, newest first. `cursor` is null at the end. Jobs of Signalbox's own queues are left out unless
   * `queue` names one; a page may be short because of them.
   */
  list(options?: ListOptions): Promise<{ items: readonly Job[]; cursor: string | null }>
  /** Cancels a job that is not running. Requests the cancellation of a running one. Throws `not_found`. */
  cancel(id: string): Promise<CancelAnswer>
  /** Makes an ended job ready again, with attempt 0. Throws `not_found`, `conflict`. */
  retry(id: string): Promise<{ id: string; state: 'ready' }>
  /** `retry` for dead jobs, oldest first. */
  retryDead(options?: { queue?: string; kind?: string; limit?: number }): Promise<{ retried: number }>
  /** Counts by queue, without Signalbox's own queues (`signalbox.…`). */
  stats(): Promise<readonly QueueStats[]>
  /** No job of the queue starts until it is resumed; running jobs continue. */
  pause(queue: string): Promise<void>
  resume(queue: string): Promise<void>
  /**
   * Sets how many jobs of a queue may run at once and start in a period, over all processes: of the whole queue, and of
   * each `limitKey`. Null removes the limits. They hold from the next claim on.
   */
  setLimits(queue: string, limits: LimitOptions | null): Promise<QueueLimits | null>
  /** Deletes jobs that ended more than `olderThanMs` ago. */
  prune(options: { olderThanMs: Duration }): Promise<{ pruned: number }>
  /**
   * Deletes up to 1,000 jobs with their results and logs, except running ones. Returns the ids of the deleted jobs.
   */
  remove(ids: readonly string[]): Promise<{ removed: readonly string[] }>
  /** Wakes workers of the queue; for jobs that you added in your transaction, after its commit. */
  wake(queue: string): void
  /** Creates a worker. It does nothing until it is started; closing the box stops it. */
  worker(options: WorkerOptions): Worker
}

/** A claimed job; id and token are enough. */
export type Held = Pick<ClaimedJob, 'id' | 'token'> & Partial<ClaimedJob>

export interface InTransaction {
  /** Your own open transaction on the same database. */
  readonly tx?: CallerTransaction | undefined
}

export interface AddInTransaction extends InTransaction {
  /**
   * With `tx` on Postgres: the commit wakes workers, which otherwise find the job by polling. Such commits wait for
   * each other, so do not use it on busy tables. Without `tx` workers are always woken. @default false
   */
  readonly notify?: boolean | undefined
}

export interface AckOptions extends InTransaction {
  /** The result that is stored with the job: any JSON value. */
  readonly result?: unknown
  /** How long the handler ran, so that `startedAt` is its real start. @default since the claim */
  readonly ranMs?: number | undefined
}

export interface NackOptions extends InTransaction {
  /** The reason: text, a thrown value, or any JSON value. An object is stored whole, as `error.details`. */
  readonly error?: unknown
  /** The job runs again after this time; its back-off is ignored. */
  readonly retryInMs?: Duration | undefined
  /**
   * The back-off after this failure only. Omitted fields keep the values of the job. @default the job's
   */
  readonly backoff?: Partial<Backoff> | undefined
  /** No further attempt. */
  readonly dead?: boolean | undefined
  /**
   * Makes the job ready at once without using up an attempt, as a stopping worker does. After ten hand-backs it does.
   */
  readonly handBack?: boolean | undefined
  /** Makes the job ready after this time and uses up no attempt, any number of times. */
  readonly snoozeMs?: Duration | undefined
  /** How long the handler ran, so that `startedAt` is its real start. @default since the claim */
  readonly ranMs?: number | undefined
}

/** How an attempt ended: the state its job is in now. */
export interface Ended {
  readonly state: Verdict['state']
}

/** A job is added by its kind or by its definition. */
export type AddTarget = string | AnyDefinition

/**
 * The arguments of `add` behind the kind or the definition. With one signature instead of two overloads, the compiler
 * names the field of a payload that does not fit.
 */
export type AddArguments<Target extends AddTarget, Options> = [Target] extends [
  JobDefinition<string, infer Input, infer _>,
]
  ? [payload: Input, options?: Options]
  : [payload?: unknown, options?: Options]

/** The parts of the module, from an engine. */
export interface JobsParts {
  readonly store: JobStore
  readonly notifier: JobsNotifier
  /** The store of logs and progress. @default they are not stored */
  readonly logs?: AttemptLogStore
  /** The store of failed attempts and error groups. @default none */
  readonly attempts?: AttemptStore
  /**
   * A longer-lived service of the same queues, which wakes workers for jobs that are added here and fall due later: a
   * server creates a short-lived service per request. @default this service does
   */
  readonly beside?: Jobs
  /** For Signalbox's own modules: allows queues named `signalbox.…`. @default false */
  readonly reserved?: boolean
  /** Records how long workers wait for the store, and jobs for a slot. @default not recorded */
  readonly contention?: Contention
  /** Whether this service runs bulk operations, once it began one or has a worker. @default true */
  readonly worksBulk?: boolean
  /** The dependencies of jobs, and their locks. @default the job store handles both */
  readonly dependencies?: { readonly store: DependencyStore; readonly locks: JobLocks }
  /** Whether this service unblocks waiting jobs, once it has a worker. @default true */
  readonly resolvesDependencies?: boolean
  /** Waits for the ends of jobs. @default waits on the store */
  readonly waits?: JobWaits
  /** The store of schedules; boxes with workers run them. @default none */
  readonly schedules?: ScheduleStore
  /**
   * For servers: passes sealed data on as it is stored, to boxes that may have the key. @default false
   */
  readonly passesSealed?: boolean
  /** Creates spans and metrics of adds and runs. @default none */
  readonly telemetry?: JobsTelemetry
  /** The store of the list of workers. @default none */
  readonly workers?: WorkerStore
  /** Lists the workers of this service in `workers`. @default they are not listed */
  readonly membership?: { readonly via: WorkerVia }
  /** The version of the user's program, for workers without a `release` of their own. @default none */
  readonly release?: string | null
  /** Counts adds, starts and ends of jobs. @default not counted */
  readonly activity?: JobActivity
  /** The clock of attempts and their time-outs. @default the system's */
  readonly clock?: Clock
}

/** The part of a backend's notifier that jobs use. */
export interface JobsNotifier {
  wake(topic: string): void
  /** Wakes when the caller's transaction commits. Undefined: the engine cannot do that. */
  wakeAtCommit?(tx: unknown, topics: readonly string[]): Promise<void>
  listen(topics: readonly string[], heard: () => void): () => void
  /** Whether wake-ups of other processes arrive now. */
  hearsOthers?(): boolean
}

/** The topic that wakes the workers of a queue. */
export function queueTopic(queue: string): string {
  return `jobs:${queue}`
}

/** The topic of cancellation requests. */
export const cancelTopic = 'jobs.cancel'

/** The topic of schedules that were set or resumed. */
export const schedulesTopic = 'jobs.schedules'

/** The topic of jobs that wait for others or for a lock. */
export const dependenciesTopic = 'jobs.dependencies'
