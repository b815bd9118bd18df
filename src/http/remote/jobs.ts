import { isSignalboxError } from '../../core/errors.ts'
import { text } from '../../core/options.ts'
import {
  type AckOptions,
  type AddArguments,
  type Added,
  type AddInTransaction,
  type AddOptions,
  type AddTarget,
  type AnyDefinition,
  type BatchSpec,
  checkSchedule,
  createJobs,
  type Ended,
  type HandledJob,
  type HandlerContext,
  type HandlerJob,
  type Held,
  type JobStore,
  type Jobs,
  type JobsNotifier,
  type JobsTelemetry,
  type JobToAdd,
  type LogsOptions,
  type MisplacedHandledJob,
  type NackOptions,
  type NoteOptions,
  openShown,
  type ProgressUpdate,
  type Schedules,
  SealedJobStore,
  type Sealer,
  type Worker,
  type WorkerOptions,
} from '../../jobs/index.ts'
import type { Client } from '../client/index.ts'
import { createRemoteBulk, createRemoteList } from './bulk.ts'
import { objectOf } from './encode.ts'
import { createRemoteLogs } from './logs.ts'
import { isOfSeveral, noTransaction, RemoteJobStore } from './remote-job-store.ts'

/**
 * The verbs of jobs on a server elsewhere: all but what needs a transaction. That is refused where it is written, by
 * the types below, and again when it is called, with `transaction_unsupported`.
 */
export interface RemoteJobs extends Omit<Jobs, 'add' | 'addMany' | 'ack' | 'nack' | 'worker'> {
  /**
   * Puts one job in line, by its kind or its definition: `add(kind, payload, options)`. Throws `invalid_argument` when the
   * payload does not fit the definition.
   */
  add<const Target extends AddTarget>(
    kind: Target,
    ...rest: AddArguments<Target, AddOptions & RemoteAdd>
  ): Promise<Added>
  /** Puts up to 1,000 in line, all or none; answers in order. */
  addMany(jobs: readonly JobToAdd[], options?: RemoteAdd): Promise<readonly Added[]>
  /** The job is done. Throws `lease_lost` when it is not yours any more; then nothing was written. */
  ack(job: Held, options?: RemoteAckOptions): Promise<Ended>
  /**
   * The job failed: back in line after its back-off, or dead when no attempts are left; cancelled when that was asked
   * for. Answers which. Throws `lease_lost`.
   */
  nack(job: Held, options?: RemoteNackOptions): Promise<Ended>
  /** A worker in this process for jobs that are kept there. */
  worker(options: RemoteWorkerOptions): Worker
}

/** There is no transaction to take part in. */
export interface WithoutTransaction {
  readonly tx?: undefined
}

/** The server tells its workers of every job that is added, asked or not. */
export interface RemoteAdd extends WithoutTransaction, Pick<AddInTransaction, 'notify'> {}

export interface RemoteAckOptions extends Omit<AckOptions, 'tx'>, WithoutTransaction {}
export interface RemoteNackOptions extends Omit<NackOptions, 'tx'>, WithoutTransaction {}

/** A job in its handler's hands. It is finished by returning, throwing, `ack` or `nack`. */
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

/** A handler that takes up to `size` jobs at once. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface RemoteBatchSpec<Payload = any> {
  readonly batch: BatchSpec['batch']
  readonly runBatch: (jobs: readonly RemoteHandlerJob<Payload>[], context: HandlerContext) => unknown
  readonly finish?: 'any'
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
export type RemoteHandler<Payload = any> =
  | RemoteHandlerFunction<Payload>
  | RemoteHandlerSpec<Payload>
  | RemoteBatchSpec<Payload>

/** What a worker is made of. */
export interface RemoteWorkerOptions extends Omit<WorkerOptions, 'handlers'> {
  /** By kind, or a list of handled definitions. Jobs of other kinds are left for workers that know them. */
  readonly handlers: Readonly<Record<string, RemoteHandler | MisplacedHandledJob>> | Iterable<HandledJob>
}

/** What is done with jobs on their way. */
export interface RemoteJobsParts {
  readonly sealer?: Sealer | undefined
  readonly telemetry?: JobsTelemetry | undefined
}

export function createRemoteJobs(
  client: Client,
  notifier: JobsNotifier,
  { sealer, telemetry }: RemoteJobsParts = {},
): RemoteJobs {
  const traced = telemetry && { telemetry }
  const sealed = (store: JobStore) => (sealer === undefined ? store : new SealedJobStore(store, sealer))
  const jobs = createJobs({ store: sealed(new RemoteJobStore(client)), notifier, ...traced })
  const workers = createJobs({
    store: sealed(new RemoteJobStore(client, { dropsResults: true })),
    logs: createRemoteLogs(client),
    notifier,
    ...traced,
    // That is the server's to do.
    worksBulk: false,
  })
  return {
    ...jobs,
    ...createRemoteBulk(client),
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
        // Adds made at once share a request, which may be refused for being too large together, or for what is wrong
        // with another's. Nothing was written then, and each is told what there is to say about its own. What was
        // said before anything was sent was said about this one alone.
        if (!isOfSeveral(error) && !isSignalboxError(error, 'seal_failed')) throw error
        const defined = (kind as Partial<AnyDefinition> | null)?.job?.(payload, options)
        return (await jobs.addMany([defined ?? { ...options, kind: kind as string, payload }]))[0]!
      }
    },

    async find(id) {
      const job = await client.jobs.find(text('find.id', id))
      // A server of an older version has less to show.
      return job && openShown(sealer, { ...unsaid, ...job })
    },

    logs: async (id, options = {}) => client.jobs.logs(text('logs.id', id), logsQuery(options)),
    async note(job, options) {
      const { progress, logs } = objectOf('note', options)
      await client.jobs.note(objectOf('job', job), {
        ...(progress === undefined ? {} : { progress: progressBody(progress) }),
        ...(logs === undefined ? {} : { logs: logsBody(logs) }),
      })
    },

    wake(queue) {
      jobs.wake(queue)
      // A hint: whoever does not get it polls.
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

/** What a job has of which an older server says nothing. */
const unsaid = {
  ...{ tags: [], limitKey: null, lock: null, schedule: null, progress: null, snoozeCount: 0 },
  ...{ dependencies: [], dependents: [] },
}

function logsQuery(options: LogsOptions): { limit?: number; cursor?: string } {
  const { limit, cursor } = objectOf('logs', options)
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(cursor === undefined || cursor === null ? {} : { cursor }),
  }
}

function logsBody(logs: NonNullable<NoteOptions['logs']>) {
  // What is no list is for the server to refuse.
  if (!Array.isArray(logs)) return logs as []
  return logs.map((line: (typeof logs)[number]) => {
    const { text, level = 'info' } = objectOf('note.logs', line)
    return { text, level }
  })
}

function progressBody(progress: ProgressUpdate): { percent?: number; note?: string; data?: unknown } {
  if (typeof progress === 'number') return { percent: progress }
  const { percent, note, data } = objectOf('note.progress', progress)
  return {
    ...(percent === undefined ? {} : { percent }),
    ...(note === undefined ? {} : { note }),
    ...(data === undefined ? {} : { data }),
  }
}

/** A list as an array, for it may be one that can be walked only once; whatever is no list as it is. */
function listed(handlers: RemoteWorkerOptions['handlers'] | undefined): unknown {
  const isList = typeof handlers === 'object' && handlers !== null && Symbol.iterator in handlers
  return isList ? Array.from(handlers as Iterable<HandledJob>) : handlers
}

function asHandled([kind, handler]: [string, unknown]): { kind: string; handler: unknown } {
  return { kind, handler }
}

/** Schedules that are kept on a server elsewhere, and run there. */
export function createRemoteSchedules({ jobs: { schedules } }: Client): Schedules {
  return {
    ...schedules,
    async set(name, options) {
      // What is wrong with it is said here as it would be there; only here is the schema of a defined kind known.
      await checkSchedule(options)
      const { startAt, endAt, ...others } = options
      const body = {
        ...others,
        ...(startAt === undefined ? {} : { startAt: toInstant(startAt) }),
        ...(endAt === undefined ? {} : { endAt: toInstant(endAt) }),
      }
      return schedules.set(name, body as unknown as Parameters<typeof schedules.set>[1])
    },
    async list(options = {}) {
      const { cursor, limit } = objectOf('list', options)
      return schedules.list({
        ...(limit === undefined ? {} : { limit }),
        ...(cursor === undefined || cursor === null ? {} : { cursor }),
      })
    },
  }
}

function toInstant(value: number | Date | null): number | null {
  return value instanceof Date ? value.getTime() : value
}
