/** The surface of `signalbox` and `signalbox/jobs` as their contract declares it; `tsc` is the test. */
import type * as whole from 'signalbox'
import type { AlertOptions, Box, Duration, OpenOptions, SeriesOptions } from 'signalbox'
import type { Contention } from 'signalbox/contention'
import type { DispatchOptions } from 'signalbox/dispatch'
import type * as room from 'signalbox/jobs'
import type {
  AddArguments,
  Added,
  AddInTransaction,
  AddOptions,
  AddTarget,
  CancelAnswer,
  ClaimedJob,
  ClaimOptions,
  Ended,
  FoundJob,
  Handler,
  HandlerContext,
  HandlerJob,
  Held,
  Job,
  JobError,
  JobState,
  Jobs,
  JobsOptions,
  JobToAdd,
  ListOptions,
  NackOptions,
  QueryResult,
  QueueStats,
  SearchPage,
  StoreTransaction,
  TelemetryApi,
  Worker,
  WorkerEvents,
  WorkerOptions,
} from 'signalbox/jobs'
import type { LocksOptions } from 'signalbox/locks'
import type { MonitorOptions } from 'signalbox/monitor'
import type { OnceOptions } from 'signalbox/once'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Expect<T extends true> = T
/** Options are read, never written; that they take an explicit `undefined` is no part of the comparison. */
type Loose<T> = { -readonly [K in keyof T]: Exclude<T[K], undefined> }

/** The values: these names and no others. */
export type Names = [
  Expect<
    Equal<
      keyof typeof whole,
      'open' | 'defineJob' | 'createAesSealer' | 'SignalboxError' | 'isSignalboxError'
    >
  >,
  Expect<
    Equal<
      keyof typeof room,
      | 'createJobs'
      | 'bulkActions'
      | 'bulkQueue'
      | 'createBulkWork'
      | 'formatSearch'
      | 'parseSearch'
      | 'createFiring'
      | 'createDependencyResolver'
      | 'checkSchedule'
      | 'createDrivenJobs'
      | 'createTelemetry'
      | 'createUpkeep'
      | 'countSome'
      | 'fingerprintError'
      | 'defineJob'
      | 'createAesSealer'
      | 'Completer'
      | 'findCancelled'
      | 'foldFacts'
      | 'noFacts'
      | 'parseMeta'
      | 'renewLeases'
      | 'forwardJobStore'
      | 'createSealedJobStore'
      | 'jobsOptionKeys'
      | 'resolveJobsOptions'
      | 'openShown'
      | 'isSealed'
      | 'sealedFor'
      | 'givenId'
      | 'isReserved'
      | 'isFinal'
      | 'JobWaits'
      | 'maxWaitedIds'
      | 'jobStates'
      | 'loadTelemetryApi'
      | 'queueTopic'
      | 'cancelTopic'
    >
  >,
]

// ------------------------------------------------------------------ box
export type Boxes = [
  Expect<
    Equal<
      Loose<OpenOptions>,
      {
        namespace?: string
        migrate?: boolean
        retentionMs?: Duration
        thread?: boolean
        redis?: string
        guards?: 'sql' | 'redis'
        jobs?: JobsOptions
        locks?: LocksOptions
        once?: OnceOptions
        monitor?: Omit<MonitorOptions, 'allowPrivate'>
        dispatch?: DispatchOptions
        allowPrivate?: readonly string[]
        secretKey?: string | readonly string[]
        clock?: { now(): number }
        contention?: boolean | Contention
        series?: boolean | SeriesOptions
        alerts?: AlertOptions
        telemetry?: boolean | TelemetryApi
      }
    >
  >,
  Expect<
    Equal<
      keyof Box,
      | 'jobs'
      | 'locks'
      | 'once'
      | 'monitor'
      | 'dispatch'
      | 'contention'
      | 'metrics'
      | 'settings'
      | 'backend'
      | 'warnings'
      | 'ping'
      | 'close'
      | typeof Symbol.asyncDispose
    >
  >,
  Expect<Equal<Box['jobs'], Jobs>>,
]

// ------------------------------------------------------------------ jobs
type JobsMembers =
  | 'add'
  | 'addMany'
  | 'claim'
  | 'ack'
  | 'nack'
  | 'renew'
  | 'find'
  | 'wait'
  | 'bulk'
  | 'bulkOperation'
  | 'bulkOperations'
  | 'cancelBulk'
  | 'errorGroups'
  | 'errorGroup'
  | 'logs'
  | 'note'
  | 'list'
  | 'cancel'
  | 'retry'
  | 'retryDead'
  | 'stats'
  | 'pause'
  | 'resume'
  | 'setLimits'
  | 'workers'
  | 'findWorker'
  | 'quietWorker'
  | 'resumeWorker'
  | 'stopWorker'
  | 'prune'
  | 'remove'
  | 'schedules'
  | 'wake'
  | 'worker'
  | typeof Symbol.asyncDispose
export type Verbs = [
  Expect<Equal<keyof Jobs, JobsMembers>>,
  Expect<
    Equal<
      Jobs['add'],
      <const Target extends AddTarget>(
        kind: Target,
        ...rest: AddArguments<Target, AddOptions & AddInTransaction>
      ) => Promise<Added>
    >
  >,
  Expect<
    Equal<
      Jobs['addMany'],
      (jobs: readonly JobToAdd[], options?: AddInTransaction) => Promise<readonly Added[]>
    >
  >,
  Expect<Equal<Jobs['claim'], (options?: ClaimOptions) => Promise<readonly ClaimedJob[]>>>,
  Expect<Equal<Jobs['nack'], (job: Held, options?: NackOptions) => Promise<Ended>>>,
  Expect<Equal<Jobs['find'], (id: string) => Promise<FoundJob | undefined>>>,
  Expect<
    Equal<
      Jobs['list'],
      {
        (options: ListOptions & { readonly search: string }): Promise<SearchPage>
        (options?: ListOptions): Promise<{ items: readonly Job[]; cursor: string | null }>
      }
    >
  >,
  Expect<Equal<Jobs['cancel'], (id: string) => Promise<CancelAnswer>>>,
  Expect<Equal<Jobs['stats'], () => Promise<readonly QueueStats[]>>>,
  Expect<Equal<Jobs['worker'], (options: WorkerOptions) => Worker>>,
]
export type Records = [
  Expect<Equal<Loose<Added>, { id: string; duplicate: boolean }>>,
  Expect<
    Equal<
      Loose<JobError>,
      { name?: string; message: string; code?: string; stack?: string; details?: unknown }
    >
  >,
  Expect<Equal<JobState, 'scheduled' | 'ready' | 'waiting' | 'running' | 'completed' | 'dead' | 'cancelled'>>,
  Expect<
    Equal<
      keyof AddOptions,
      | 'queue'
      | 'priority'
      | 'uniqueKey'
      | 'runAt'
      | 'delayMs'
      | 'maxAttempts'
      | 'backoff'
      | 'timeoutMs'
      | 'tags'
      | 'limitKey'
      | 'after'
      | 'lock'
      | 'trace'
    >
  >,
  Expect<Equal<keyof ClaimOptions, 'queues' | 'kinds' | 'workerId' | 'limit' | 'leaseMs'>>,
  Expect<
    Equal<
      keyof NackOptions,
      'tx' | 'error' | 'retryInMs' | 'backoff' | 'dead' | 'handBack' | 'snoozeMs' | 'ranMs'
    >
  >,
  Expect<Equal<keyof ListOptions, 'queue' | 'kind' | 'state' | 'search' | 'limit' | 'cursor'>>,
  Expect<
    Equal<
      Exclude<keyof ClaimedJob, keyof Job>,
      'token' | 'leaseEndsAt' | 'handBackCount' | 'snoozeCount' | 'trace' | 'fence'
    >
  >,
  Expect<
    Equal<
      Exclude<keyof HandlerJob, keyof ClaimedJob>,
      'transaction' | 'ack' | 'nack' | 'snooze' | 'progress' | 'log' | 'signal'
    >
  >,
  Expect<
    Equal<
      Exclude<keyof FoundJob, keyof Job>,
      'progress' | 'snoozeCount' | 'dependencies' | 'dependents' | 'attempts' | 'blocked'
    >
  >,
  Expect<Equal<Job<{ to: string }>['payload'], { to: string }>>,
  // A job is read-only for its handler.
  Expect<Equal<Job, Readonly<Job>>>,
]

// ------------------------------------------------------------------ worker
export type Workers = [
  Expect<
    Equal<
      keyof Worker,
      | 'workerId'
      | 'on'
      | 'once'
      | 'listenerCount'
      | 'ready'
      | 'load'
      | 'mode'
      | 'counts'
      | 'start'
      | 'stop'
      | typeof Symbol.asyncDispose
    >
  >,
  Expect<
    Equal<
      keyof WorkerEvents,
      'completed' | 'failed' | 'handedBack' | 'snoozed' | 'lost' | 'late' | 'stopped' | 'warning'
    >
  >,
  Expect<Equal<HandlerContext, { readonly signal: AbortSignal }>>,
  Expect<
    Equal<StoreTransaction['query'], (sql: string, params?: readonly unknown[]) => Promise<QueryResult>>
  >,
]

// ------------------------------------------------------------------ what a program writes
export async function program(box: Box): Promise<void> {
  const { id, duplicate } = await box.jobs.add('charge', { orderId: 7 }, { priority: 1, delayMs: '5s' })
  const added: [string, boolean] = [id, duplicate]
  await box.jobs.addMany([{ kind: 'mail', payload: added, uniqueKey: 'ada', runAt: new Date() }])
  const [job] = await box.jobs.claim({ queues: ['default'], leaseMs: 30_000 })
  if (job) await box.jobs.ack(job, { result: 5 })
  // Id and token are enough: they may have been kept elsewhere.
  await box.jobs.nack({ id, token: 't' }, { error: new Error('no'), dead: true })

  const typed: Handler<{ to: string }> = (given) => given.payload.to.length
  await using worker = box.jobs.worker({
    handlers: {
      typed,
      plain: () => undefined,
      charge: (given) =>
        given.transaction(async (tx) => {
          const { rows, rowCount } = await tx.sql`SELECT ${given.id}`
          return { first: rows[0], rowCount }
        }),
      mine: {
        finish: 'transaction',
        group: 10,
        run: async (given, { signal }) => given.ack({ result: signal.aborted }),
      },
    },
  })
  worker.on('failed', ({ job: failed, state }) => [failed.id, state])
}

export async function mistakes(box: Box): Promise<void> {
  // @ts-expect-error a misspelt option
  await box.jobs.add('mail', {}, { delay: 5 })
  // @ts-expect-error a priority is a number
  await box.jobs.add('mail', {}, { priority: 'high' })
  // @ts-expect-error each of many has a kind
  await box.jobs.addMany([{ payload: 1 }])
  // @ts-expect-error only what was claimed has a token
  await box.jobs.ack({ id: 'a' })
  // @ts-expect-error a worker has handlers
  box.jobs.worker({ concurrency: 5 })
  // @ts-expect-error there is no such policy
  box.jobs.worker({ handlers: { mail: { run: () => 1, finish: 'soon' } } })
  // @ts-expect-error a state that does not exist
  await box.jobs.list({ state: 'done' })
  const job = await box.jobs.find('a')
  // @ts-expect-error it may not be there
  job.id
  // @ts-expect-error a payload is unknown without a type
  job?.payload.to
}
