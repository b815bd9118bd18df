import type { Duration } from '../../core/duration.ts'
import { orUndefined } from '../../core/errors.ts'
import { duration } from '../../core/options.ts'
import type {
  Added,
  BulkCount,
  BulkOperation,
  BulkVerbs,
  ErrorGroup,
  ErrorGroupVerbs,
  Jobs,
  Schedule,
  Schedules,
  WorkerVerbs,
} from '../../jobs/index.ts'
import * as api from '../contract/index.ts'
import type { Client } from './client.ts'

/** A job as the server shows it in a list, and by itself. */
export type WireJob = api.ReplyOf<typeof api.listJobs>['items'][number]
export type WireFoundJob = api.ReplyOf<typeof api.getJob>
export type WireClaimedJob = api.ReplyOf<typeof api.claimJobs>['items'][number]
export type WireQueues = api.ReplyOf<typeof api.listQueues>
export type WireQueueStats = WireQueues['items'][number]

/** How a wait for a job ended. */
export interface WireWaitedJob {
  /** `timeout`: the job has not ended yet. */
  readonly status: 'ended' | 'timeout'
  readonly job: WireFoundJob
}

/** A worker as the server shows it in a list, and by itself. */
export type WireWorkers = api.ReplyOf<typeof api.listWorkers>
export type WireWorker = WireWorkers['items'][number]
export type WireFoundWorker = api.ReplyOf<typeof api.getWorker>

export type WireErrorGroup = ErrorGroup
export type WireAdded = Added
/** An operation on every job that a search matches, as the server shows it. */
export type WireBulkOperation = BulkOperation
export type WireBulkCount = BulkCount
/** A schedule as the server shows it. */
export type WireSchedule = Schedule

/** A claimed job, or its id and token. */
export interface WireHeld {
  readonly id: string
  readonly token: string
}

/**
 * The verbs of jobs, over HTTP: for a dashboard, a script, a function that runs now and then. Workers need a box from
 * `open(url)`.
 */
export interface JobsClient
  extends BulkClient,
    ErrorGroupVerbs,
    WorkerVerbs,
    Pick<Jobs, 'find' | 'logs' | 'cancel' | 'retry' | 'retryDead' | 'prune' | 'remove'> {
  /** Jobs that run by the clock. */
  readonly schedules: SchedulesClient
  add(
    kind: string,
    payload?: unknown,
    options?: Omit<api.JobToAddBody, 'kind' | 'payload'>,
  ): Promise<WireAdded>
  /** All or none, up to 1,000. */
  addMany(jobs: readonly api.JobToAddBody[]): Promise<readonly WireAdded[]>
  /** Claims ready jobs; with `waitMs`, waits up to 60 s for one. `signal` ends the wait. */
  claim(options?: api.ClaimBody & { readonly signal?: AbortSignal }): Promise<readonly WireClaimedJob[]>
  /** Throws `lease_lost`. */
  ack(job: WireHeld, options?: Omit<api.AckBody, 'token'>): Promise<api.Settled>
  /** Throws `lease_lost`. */
  nack(job: WireHeld, options?: Omit<api.NackBody, 'token'>): Promise<api.Settled>
  /** Throws `lease_lost`. */
  renew(job: WireHeld, leaseMs?: Duration): Promise<api.Renewed>
  /**
   * Waits until the job has ended, or until `timeoutMs` (60 s) is over. `signal` ends the wait. Throws `not_found`.
   */
  wait(
    id: string,
    options?: { readonly timeoutMs?: Duration; readonly signal?: AbortSignal },
  ): Promise<WireWaitedJob>
  /** Reports the progress of a claimed job, and writes log lines about it. Throws `lease_lost`. */
  note(
    job: WireHeld & { readonly attempt?: number },
    note: Omit<api.LogBody, 'token' | 'attempt'>,
  ): Promise<void>
  list(options?: api.QueryOf<typeof api.listJobs>): Promise<api.ReplyOf<typeof api.listJobs>>
  stats(): Promise<readonly WireQueueStats[]>
  /** The same without waiting for the count of very many jobs: `counting` says that the count has not ended. */
  queues(query?: api.QueryOf<typeof api.listQueues>): Promise<WireQueues>
  pause(queue: string): Promise<api.QueueSwitched>
  resume(queue: string): Promise<api.QueueSwitched>
  /** Sets the limits of a queue; null lifts them. */
  setLimits(queue: string, limits: api.LimitQueueBody | null): Promise<api.QueueLimited>
  wake(queue: string): Promise<void>
}

/** The verbs of bulk operations, over HTTP. */
export type BulkClient = BulkVerbs

/** The verbs of schedules, over HTTP. */
export interface SchedulesClient extends Omit<Schedules, 'set'> {
  /** Creates or replaces a schedule. The same call again changes nothing. */
  set(name: string, options: Omit<api.SetScheduleBody, 'name'>): Promise<WireSchedule>
}

export function createJobsClient(client: Pick<Client, 'call'>, timeoutMs: number): JobsClient {
  return {
    schedules: createSchedulesClient(client),

    bulk: ((body) => client.call(api.bulkJobs, { body })) as BulkVerbs['bulk'],
    bulkOperation: (id) => orUndefined('not_found', client.call(api.getBulkOperation, { params: { id } })),
    bulkOperations: async (query = {}) => (await client.call(api.listBulkOperations, { query })).items,
    cancelBulk: (id) => client.call(api.cancelBulkOperation, { params: { id } }),

    add: async (kind, payload, options = {}) =>
      (await client.call(api.addJobs, {
        body: { ...options, kind, ...(payload === undefined ? {} : { payload }) },
      })) as WireAdded,
    addMany: async (jobs) =>
      ((await client.call(api.addJobs, { body: jobs })) as { readonly items: readonly WireAdded[] }).items,

    async claim({ signal, ...body } = {}) {
      const waitMs = duration('claim.waitMs', body.waitMs ?? 0, { max: 60_000 })
      const { items } = await client.call(api.claimJobs, {
        body,
        signal,
        timeoutMs: timeoutMs + waitMs,
        maxReplyBytes: pageBytes(body.limit ?? 1),
      })
      return items
    },

    ack: ({ id, token }, options = {}) =>
      client.call(api.ackJob, { params: { id }, body: { ...options, token } }),
    nack: ({ id, token }, options = {}) =>
      client.call(api.nackJob, { params: { id }, body: { ...options, token } }),
    renew: ({ id, token }, leaseMs) =>
      client.call(api.renewJob, {
        params: { id },
        body: { token, ...(leaseMs === undefined ? {} : { leaseMs }) },
      }),

    find: (id) => orUndefined('not_found', client.call(api.getJob, { params: { id } })),
    async wait(id, { timeoutMs: longest = 60_000, signal } = {}) {
      const until = performance.now() + duration('wait.timeoutMs', longest)
      for (;;) {
        const leftMs = Math.max(0, Math.ceil(until - performance.now()))
        const waitMs = Math.min(leftMs, longestWaitMs)
        const job = await client.call(api.getJob, {
          ...{ params: { id }, query: { waitMs }, signal },
          timeoutMs: timeoutMs + waitMs,
        })
        if (job.finishedAt !== null) return { status: 'ended', job }
        if (leftMs <= waitMs) return { status: 'timeout', job }
      }
    },

    logs: (id, query = {}) => client.call(api.jobLogs, { params: { id }, query }),
    async note({ id, token, attempt }, note) {
      const body = { ...note, token, ...(attempt === undefined ? {} : { attempt }) }
      await client.call(api.logJob, { params: { id }, body })
    },
    errorGroups: (query = {}) => client.call(api.listErrorGroups, { query }),
    errorGroup: (fingerprint) =>
      orUndefined('not_found', client.call(api.getErrorGroup, { params: { fingerprint } })),
    list: (query = {}) =>
      client.call(api.listJobs, { query, maxReplyBytes: pageBytes(Number(query?.limit ?? 50)) }),
    cancel: (id) => client.call(api.cancelJob, { params: { id } }),
    retry: (id) => client.call(api.retryJob, { params: { id } }),
    retryDead: (body = {}) => client.call(api.retryDeadJobs, { body }),
    stats: async () => (await client.call(api.listQueues)).items,
    queues: (query = {}) => client.call(api.listQueues, { query }),
    pause: (name) => client.call(api.pauseQueue, { params: { name } }),
    resume: (name) => client.call(api.resumeQueue, { params: { name } }),
    setLimits: (name, body) =>
      body === null
        ? client.call(api.unlimitQueue, { params: { name } })
        : client.call(api.limitQueue, { params: { name }, body }),
    prune: (body) => client.call(api.pruneJobs, { body, timeoutMs: Math.max(timeoutMs, pruneMs) }),
    remove: (ids) => client.call(api.removeJobs, { body: { ids } }),
    async wake(name) {
      await client.call(api.wakeQueue, { params: { name } })
    },
    workers: (query = {}) => client.call(api.listWorkers, { query, maxReplyBytes: workersBytes }),
    findWorker: (id) =>
      orUndefined('not_found', client.call(api.getWorker, { params: { id }, maxReplyBytes: workersBytes })),
    quietWorker: (id) => client.call(api.quietWorker, { params: { id } }),
    resumeWorker: (id) => client.call(api.resumeWorker, { params: { id } }),
    stopWorker: (id, body = {}) => client.call(api.stopWorker, { params: { id }, body }),
  }
}

/** The longest wait of one request. A lost connection delays the answer by at most this time. */
const longestWaitMs = 20_000

/** A worker may know hundreds of kinds, each with a schema. */
const workersBytes = 64 * 1_048_576

/** How long pruning may take: the server prunes millions of jobs in small steps. */
const pruneMs = 120_000

/** The longest page of `limit` jobs: payload and result of 256 KiB each, and an error with its stack. */
function pageBytes(limit: number): number {
  return 65_536 + Math.min(500, Math.max(1, Math.floor(limit) || 1)) * 655_360
}

function createSchedulesClient(client: Pick<Client, 'call'>): SchedulesClient {
  return {
    set: (name, options) => client.call(api.setSchedule, { body: { ...options, name } }),
    find: (name) => orUndefined('not_found', client.call(api.getSchedule, { params: { name } })),
    list: (query = {}) =>
      client.call(api.listSchedules, { query, maxReplyBytes: Number(query?.limit ?? 50) * maxScheduleBytes }),
    remove: async (name) => (await client.call(api.removeSchedule, { params: { name } })).removed,
    pause: (name) => client.call(api.pauseSchedule, { params: { name } }),
    resume: (name) => client.call(api.resumeSchedule, { params: { name } }),
    run: (name) => client.call(api.runSchedule, { params: { name } }),
  }
}

/** A payload of 256 KiB may be escaped, and the schedule has other fields. */
const maxScheduleBytes = 2 * 1_048_576
