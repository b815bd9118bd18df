import { isSignalboxError } from '../../core/errors.ts'
import { text } from '../../core/options.ts'
import { absentWorkers, type WorkerRef, type WorkerStore } from '../../fleet/workers/index.ts'
import {
  type AckOptions,
  type AddArguments,
  type Added,
  type AddInTransaction,
  type AddOptions,
  type AddTarget,
  type AnyDefinition,
  type AttemptLogStore,
  type AttemptLogUpdate,
  type BatchSpec,
  checkSchedule,
  createJobs,
  createSealedJobStore,
  type Ended,
  type HandledJob,
  type HandlerContext,
  type HandlerJob,
  type Held,
  type JobStore,
  type Jobs,
  type JobsNotifier,
  type JobsParts,
  type JobsTelemetry,
  type JobToAdd,
  JobWaits,
  type ListOptions,
  type LookAtJobs,
  type MisplacedHandledJob,
  type NackOptions,
  type NoteOptions,
  openShown,
  type ProgressUpdate,
  type Schedules,
  type Sealer,
  type SearchPage,
  type Worker,
  type WorkerOptions,
} from '../../jobs/index.ts'
import { type Client, JsonText, logJob, reportWorkers, type ShapeOf, waitForJobs } from '../client/index.ts'
import { inParallel, isOfSeveral, noTransaction, objectOf, RemoteJobStore } from './remote-job-store.ts'

/**
 * The methods of jobs on a remote server, without transactions. The types below refuse a transaction at compile time,
 * and the call throws `transaction_unsupported`.
 */
export interface RemoteJobs extends Omit<Jobs, 'add' | 'addMany' | 'ack' | 'nack' | 'worker'> {
  /**
   * Adds one job, by its kind or its definition: `add(kind, payload, options)`. Throws `invalid_argument` when the
   * payload does not match the definition.
   */
  add<const Target extends AddTarget>(
    kind: Target,
    ...rest: AddArguments<Target, AddOptions & RemoteAdd>
  ): Promise<Added>
  /** Adds up to 1,000 jobs, all or none; answers in order. */
  addMany(jobs: readonly JobToAdd[], options?: RemoteAdd): Promise<readonly Added[]>
  /** Completes a job. Throws `lease_lost` if the caller no longer holds it; then nothing was written. */
  ack(job: Held, options?: RemoteAckOptions): Promise<Ended>
  /**
   * Fails an attempt. The job runs again after its back-off. Without attempts left it is dead; after a cancellation
   * request it is cancelled. Returns the new state. Throws `lease_lost`.
   */
  nack(job: Held, options?: RemoteNackOptions): Promise<Ended>
  /** Creates a worker in this process for jobs on the server. */
  worker(options: RemoteWorkerOptions): Worker
}

/** A remote box has no transactions. */
export interface WithoutTransaction {
  readonly tx?: undefined
}

/** The server always notifies its workers. */
export interface RemoteAdd extends WithoutTransaction, Pick<AddInTransaction, 'notify'> {}

export interface RemoteAckOptions extends Omit<AckOptions, 'tx'>, WithoutTransaction {}
export interface RemoteNackOptions extends Omit<NackOptions, 'tx'>, WithoutTransaction {}

/** The job that a handler gets. Returning, throwing, `ack` or `nack` ends it. */
export interface RemoteHandlerJob<Payload = unknown>
  extends Omit<HandlerJob<Payload>, 'transaction' | 'ack' | 'nack'> {
  ack(options?: RemoteAckOptions): Promise<Ended>
  nack(options?: RemoteNackOptions): Promise<Ended>
}

// biome-ignore lint/suspicious/noExplicitAny: a payload is what the adder put in; typed kinds give it its type.
export type RemoteHandlerFunction<Payload = any> = (
  job: RemoteHandlerJob<Payload>,
  context: HandlerContext,
) => unknown

/** A handler with its policies. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface RemoteHandlerSpec<Payload = any> {
  readonly run: RemoteHandlerFunction<Payload>
  readonly finish?: 'any'
}

/** A handler that runs up to `size` jobs at once. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
interface RemoteBatchSpec<Payload = any> {
  readonly batch: BatchSpec['batch']
  readonly runBatch: (jobs: readonly RemoteHandlerJob<Payload>[], context: HandlerContext) => unknown
  readonly finish?: 'any'
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
export type RemoteHandler<Payload = any> =
  | RemoteHandlerFunction<Payload>
  | RemoteHandlerSpec<Payload>
  | RemoteBatchSpec<Payload>

/** Options of a worker. */
export interface RemoteWorkerOptions extends Omit<WorkerOptions, 'handlers'> {
  /** Handlers by kind, or a list of handled definitions. The worker leaves jobs of other kinds to other workers. */
  readonly handlers: Readonly<Record<string, RemoteHandler | MisplacedHandledJob>> | Iterable<HandledJob>
}

/** Encryption and telemetry of jobs. */
interface RemoteJobsParts {
  readonly sealer?: Sealer | undefined
  readonly telemetry?: JobsTelemetry | undefined
  /** How the server lists workers of this box. @default it does not */
  readonly membership?: JobsParts['membership'] | undefined
  readonly release?: string | null | undefined
}

export function createRemoteJobs(
  client: Client,
  notifier: JobsNotifier,
  { sealer, telemetry, membership, release = null }: RemoteJobsParts = {},
): RemoteJobs {
  const traced = telemetry && { telemetry }
  const sealed = (store: JobStore) => (sealer === undefined ? store : createSealedJobStore(store, sealer))
  const waits = new JobWaits({ look: createRemoteLook(client), isHeld: true })
  const jobs = createJobs({ store: sealed(new RemoteJobStore(client)), notifier, waits, ...traced })
  const workers = createJobs({
    store: sealed(new RemoteJobStore(client, { dropsResults: true })),
    logs: createRemoteLogs(client),
    notifier,
    ...traced,
    ...(membership && { membership, workers: createRemoteWorkerStore(client) }),
    release,
    // The server runs bulk operations.
    worksBulk: false,
  })
  const { bulk, bulkOperation, bulkOperations, cancelBulk, errorGroups, errorGroup, logs } = client.jobs
  const { findWorker, quietWorker, resumeWorker, stopWorker } = client.jobs
  return {
    ...jobs,
    // The server does these.
    ...{ bulk, bulkOperation, bulkOperations, cancelBulk, errorGroups, errorGroup, logs },
    ...{ workers: client.jobs.workers, findWorker, quietWorker, resumeWorker, stopWorker },
    list: createRemoteList(client, jobs.list, sealer),
    schedules: createRemoteSchedules(client),

    async add(
      kind: string | AnyDefinition,
      payload?: unknown,
      options?: AddOptions & RemoteAdd,
    ): Promise<Added> {
      try {
        return await jobs.add(kind as string, payload, options)
      } catch (error) {
        // Simultaneous adds share a request. The server may refuse it because it is too large, or because of another
        // job. Nothing was written then, so each job is sent alone and gets its own answer. An error from before the
        // request concerns only this job.
        if (!isOfSeveral(error) && !isSignalboxError(error, 'seal_failed')) throw error
        const defined = (kind as Partial<AnyDefinition> | null)?.job?.(payload, options)
        return (await jobs.addMany([defined ?? { ...options, kind: kind as string, payload }]))[0]!
      }
    },

    async find(id) {
      const job = await client.jobs.find(text('find.id', id))
      return job && openShown(sealer, job)
    },

    async note(job, options) {
      const { progress, logs } = objectOf('note', options)
      await client.jobs.note(objectOf('job', job), {
        ...(progress === undefined ? {} : { progress: progressBody(progress) }),
        ...(logs === undefined ? {} : { logs: logsBody(logs) }),
      })
    },

    wake(queue) {
      jobs.wake(queue)
      // Only a hint: workers poll as well.
      client.jobs.wake(queue).catch(() => undefined)
    },

    worker(options) {
      const handlers = listed(options?.handlers)
      const each = Array.isArray(handlers) ? handlers : Object.entries(handlers ?? {}).map(asHandled)
      for (const handled of each as readonly (Partial<HandledJob> | null)[]) {
        const { finish } = (handled?.handler ?? {}) as { finish?: unknown }
        if (finish === 'transaction')
          throw noTransaction(`The handler of "${handled?.kind}" cannot end its jobs in a transaction`)
      }
      return workers.worker({ ...options, handlers } as WorkerOptions)
    },

    async [Symbol.asyncDispose]() {
      await workers[Symbol.asyncDispose]()
      await jobs[Symbol.asyncDispose]()
    },
  }
}

/** The server holds the request until one of the jobs has ended. */
function createRemoteLook(client: Client): LookAtJobs {
  return async (ids, signal) => {
    const { items } = await client.call(waitForJobs, {
      ...{ body: { ids, waitMs: heldMs }, signal },
      timeoutMs: heldMs + answerMs,
    })
    return items.map(({ state }) => state ?? undefined)
  }
}

/** A lost connection delays the answer by at most this time. */
const heldMs = 20_000
const answerMs = 5_000

function logsBody(logs: NonNullable<NoteOptions['logs']>) {
  // The server refuses a value that is not a list.
  if (!Array.isArray(logs)) return logs as []
  return logs.map((line: (typeof logs)[number]) => {
    const { text, level = 'info' } = objectOf('note.logs', line)
    return { text, level }
  })
}

function progressBody(progress: ProgressUpdate): Exclude<ProgressUpdate, number> {
  if (typeof progress === 'number') return { percent: progress }
  const { percent, note, data } = objectOf('note.progress', progress)
  return { percent, note, data }
}

/** A list as an array, because an iterable may be read only once; anything else unchanged. */
function listed(handlers: RemoteWorkerOptions['handlers'] | undefined): unknown {
  const isList = typeof handlers === 'object' && handlers !== null && Symbol.iterator in handlers
  return isList ? Array.from(handlers as Iterable<HandledJob>) : handlers
}

function asHandled([kind, handler]: [string, unknown]): { kind: string; handler: unknown } {
  return { kind, handler }
}

/** Schedules on the server, which also runs them. */
function createRemoteSchedules({ jobs: { schedules } }: Client): Schedules {
  return {
    ...schedules,
    async set(name, options) {
      // Checks the payload here, because only this process has the schema of a defined kind.
      await checkSchedule(options)
      const { startAt, endAt, ...others } = options
      const body = {
        ...others,
        ...(startAt === undefined ? {} : { startAt: toInstant(startAt) }),
        ...(endAt === undefined ? {} : { endAt: toInstant(endAt) }),
      }
      return schedules.set(name, body as unknown as Parameters<typeof schedules.set>[1])
    },
  }
}

function toInstant(value: number | Date | null): number | null {
  return value instanceof Date ? value.getTime() : value
}

/** A sealer may call a key service for each job. */
const openingAtOnce = 100

/** The same list; the server runs searches. */
function createRemoteList(client: Client, list: Jobs['list'], sealer?: Sealer): Jobs['list'] {
  return async (options: ListOptions = {}): Promise<SearchPage> => {
    if (objectOf('list', options).search === undefined) return (await list(options)) as SearchPage
    const page = (await client.jobs.list(options)) as SearchPage
    const items = await inParallel(page.items, openingAtOnce, (job) => openShown(sealer, job))
    return { ...page, items }
  }
}

/** Requests in flight. */
const maxNoting = 8

/**
 * Sends progress and log lines to the server, one attempt at a time. The client retries within the time limit of a
 * call, and then drops them: nothing depends on them, and newer progress follows.
 */
function createRemoteLogs(client: Client): AttemptLogStore {
  async function send({ jobId, token, attempt, progress, logs }: AttemptLogUpdate): Promise<void> {
    const plain = JSON.stringify({ token, attempt, logs })
    const body = progress === null ? plain : `${plain.slice(0, -1)},"progress":${progress}}`
    await client.call(logJob, { params: { id: jobId }, body: new JsonText(body) })
  }
  return {
    async add(updates) {
      await inParallel(updates, maxNoting, (update) => send(update).catch(() => undefined))
    },
    async progress(jobIds) {
      const jobs = await inParallel(jobIds, maxNoting, (id) => client.jobs.find(id))
      return jobs.flatMap((job) => {
        if (!job?.progress) return []
        const { at, attempt, ...progress } = job.progress
        return [{ jobId: job.id, attempt, progress: JSON.stringify(progress), at }]
      })
    },
    async logs(jobId, { limit, after }) {
      const cursor = after === undefined ? {} : { cursor: `${after.attempt}-${after.number}` }
      return (await client.jobs.logs(jobId, { limit, ...cursor })).items
    },
    // The server prunes them with their jobs.
    prune: async () => 0,
  }
}

/** The rows of this box's workers on the server, which lists and prunes them. */
function createRemoteWorkerStore(client: Client): WorkerStore {
  const report = (body: ShapeOf<typeof reportWorkers>['body']) => client.call(reportWorkers, { body })
  const refOf = ({ id, session }: WorkerRef) => ({ id, session })
  return {
    ...absentWorkers,
    join: async (workers) => (await report({ join: workers.map(({ via: _, ...worker }) => worker) })).joined,
    renew: async (renew) => (await report({ renew })).renewed,
    wanted: async (workers) => (await report({ ask: workers.map(refOf) })).asked,
    async leave(workers) {
      await report({ leave: workers.map(refOf) })
    },
    prune: async () => 0,
  }
}
