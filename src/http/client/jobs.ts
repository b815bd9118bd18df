import type { Duration } from '../../core/duration.ts'
import { duration } from '../../core/options.ts'
import {
  type AckBody,
  ackJob,
  addJobs,
  type BulkBody,
  bulkJobs,
  type Cancelled,
  type ClaimBody,
  cancelBulkOperation,
  cancelJob,
  claimJobs,
  getBulkOperation,
  getJob,
  getSchedule,
  type JobLogsQuery,
  type JobToAddBody,
  jobLogs,
  type LimitQueueBody,
  type ListBulkQuery,
  type ListJobsQuery,
  type ListQueuesQuery,
  type ListSchedulesQuery,
  limitQueue,
  listBulkOperations,
  listJobs,
  listQueues,
  listSchedules,
  type NackBody,
  type NoteBody,
  nackJob,
  noteJob,
  pauseQueue,
  pauseSchedule,
  pruneJobs,
  type QueueLimited,
  type QueueSwitched,
  type Removed,
  type Renewed,
  type RetryDeadBody,
  removeJobs,
  removeSchedule,
  renewJob,
  resumeQueue,
  resumeSchedule,
  retryDeadJobs,
  retryJob,
  runSchedule,
  type SetScheduleBody,
  type Settled,
  type ShapeOf,
  setSchedule,
  unlimitQueue,
  wakeQueue,
} from '../contract/index.ts'
import { orUndefined } from './call.ts'
import type { Client } from './client.ts'

/** A job as the server shows it in a list, and by itself. */
export type WireJob = ShapeOf<typeof listJobs>['reply']['items'][number]
export type WireFoundJob = ShapeOf<typeof getJob>['reply']
export type WireClaimedJob = ShapeOf<typeof claimJobs>['reply']['items'][number]
export type WireQueues = ShapeOf<typeof listQueues>['reply']
export type WireQueueStats = WireQueues['items'][number]

/** What adding a job came to. */
export interface WireAdded {
  readonly id: string
  readonly duplicate: boolean
}

/** A job in hand: what a claim gave, or its id and token. */
export interface WireHeld {
  readonly id: string
  readonly token: string
}

/**
 * The verbs of jobs, over HTTP: for a dashboard, a script, a function that is called now and then. Whoever wants a
 * worker opens a box with `open(url)`.
 */
export interface JobsClient extends BulkClient {
  /** Jobs that are added by the clock. */
  readonly schedules: SchedulesClient
  add(kind: string, payload?: unknown, options?: Omit<JobToAddBody, 'kind' | 'payload'>): Promise<WireAdded>
  /** All or none, up to 1,000. */
  addMany(jobs: readonly JobToAddBody[]): Promise<readonly WireAdded[]>
  /** Takes due jobs in hand; with `waitMs`, waits up to 60 s for one. `signal` ends the wait. */
  claim(options?: ClaimBody & { readonly signal?: AbortSignal }): Promise<readonly WireClaimedJob[]>
  /** Throws `lease_lost`. */
  ack(job: WireHeld, options?: Omit<AckBody, 'token'>): Promise<Settled>
  /** Throws `lease_lost`. */
  nack(job: WireHeld, options?: Omit<NackBody, 'token'>): Promise<Settled>
  /** Throws `lease_lost`. */
  renew(job: WireHeld, leaseMs?: Duration): Promise<Renewed>
  find(id: string): Promise<WireFoundJob | undefined>
  /** The log lines that handlers wrote about a job. */
  logs(id: string, options?: JobLogsQuery): Promise<ShapeOf<typeof jobLogs>['reply']>
  /** Says how far a job in hand is, and writes log lines about it. Throws `lease_lost`. */
  note(
    job: WireHeld & { readonly attempt?: number },
    note: Omit<NoteBody, 'token' | 'attempt'>,
  ): Promise<void>
  list(options?: ListJobsQuery): Promise<ShapeOf<typeof listJobs>['reply']>
  cancel(id: string): Promise<Cancelled>
  retry(id: string): Promise<ShapeOf<typeof retryJob>['reply']>
  retryDead(options?: RetryDeadBody): Promise<{ readonly retried: number }>
  stats(): Promise<readonly WireQueueStats[]>
  /** The same for who would rather not wait for a count of very many jobs: `counting` says when it is not there yet. */
  queues(query?: ListQueuesQuery): Promise<WireQueues>
  pause(queue: string): Promise<QueueSwitched>
  resume(queue: string): Promise<QueueSwitched>
  /** Sets the limits of a queue; null lifts them. */
  setLimits(queue: string, limits: LimitQueueBody | null): Promise<QueueLimited>
  prune(options: { readonly olderThanMs: Duration }): Promise<{ readonly pruned: number }>
  /** Forgets up to 1,000 jobs that do not run; answers which were there and are gone. */
  remove(ids: readonly string[]): Promise<Removed>
  wake(queue: string): Promise<void>
}

export function createJobsClient(client: Pick<Client, 'call'>, timeoutMs: number): JobsClient {
  return {
    ...createBulkClient(client),
    schedules: createSchedulesClient(client),

    add: async (kind, payload, options = {}) =>
      (await client.call(addJobs, {
        body: { ...options, kind, ...(payload === undefined ? {} : { payload }) },
      })) as WireAdded,
    addMany: async (jobs) =>
      ((await client.call(addJobs, { body: jobs })) as { readonly items: readonly WireAdded[] }).items,

    async claim({ signal, ...body } = {}) {
      const waitMs = duration('claim.waitMs', body.waitMs ?? 0, { max: 60_000 })
      const { items } = await client.call(claimJobs, {
        body,
        signal,
        timeoutMs: timeoutMs + waitMs,
        maxReplyBytes: pageBytes(body.limit ?? 1),
      })
      return items
    },

    ack: ({ id, token }, options = {}) =>
      client.call(ackJob, { params: { id }, body: { ...options, token } }),
    nack: ({ id, token }, options = {}) =>
      client.call(nackJob, { params: { id }, body: { ...options, token } }),
    renew: ({ id, token }, leaseMs) =>
      client.call(renewJob, {
        params: { id },
        body: { token, ...(leaseMs === undefined ? {} : { leaseMs }) },
      }),

    find: (id) => orUndefined(client.call(getJob, { params: { id } })),
    logs: (id, query = {}) => client.call(jobLogs, { params: { id }, query }),
    async note({ id, token, attempt }, note) {
      const body = { ...note, token, ...(attempt === undefined ? {} : { attempt }) }
      await client.call(noteJob, { params: { id }, body })
    },
    list: (query = {}) =>
      client.call(listJobs, { query, maxReplyBytes: pageBytes(Number(query.limit ?? 50)) }),
    cancel: (id) => client.call(cancelJob, { params: { id } }),
    retry: (id) => client.call(retryJob, { params: { id } }),
    retryDead: (body = {}) => client.call(retryDeadJobs, { body }),
    stats: async () => (await client.call(listQueues)).items,
    queues: (query = {}) => client.call(listQueues, { query }),
    pause: (name) => client.call(pauseQueue, { params: { name } }),
    resume: (name) => client.call(resumeQueue, { params: { name } }),
    setLimits: (name, body) =>
      body === null
        ? client.call(unlimitQueue, { params: { name } })
        : client.call(limitQueue, { params: { name }, body }),
    prune: (body) => client.call(pruneJobs, { body, timeoutMs: Math.max(timeoutMs, pruneMs) }),
    remove: (ids) => client.call(removeJobs, { body: { ids } }),
    async wake(name) {
      await client.call(wakeQueue, { params: { name } })
    },
  }
}

/** How long pruning may take: there may be millions, and it goes in small bites. */
const pruneMs = 120_000

/** The most that a page of so many jobs can take: payload and result of 256 KiB each, and an error with its stack. */
function pageBytes(limit: number): number {
  return 65_536 + Math.min(500, Math.max(1, Math.floor(limit) || 1)) * 655_360
}

/** Something done to every job that a search means, as the server shows it. */
export type WireBulkOperation = ShapeOf<typeof getBulkOperation>['reply']
export type WireBulkCount = Exclude<ShapeOf<typeof bulkJobs>['reply'], WireBulkOperation>

/** The verbs of bulk operations, over HTTP. */
export interface BulkClient {
  bulk(options: BulkBody & { readonly dryRun: true }): Promise<WireBulkCount>
  bulk(options: BulkBody & { readonly dryRun?: false }): Promise<WireBulkOperation>
  bulk(options: BulkBody): Promise<WireBulkOperation | WireBulkCount>
  bulkOperation(id: string): Promise<WireBulkOperation | undefined>
  bulkOperations(options?: ListBulkQuery): Promise<readonly WireBulkOperation[]>
  /** Throws `not_found`. */
  cancelBulk(id: string): Promise<WireBulkOperation>
}

export function createBulkClient(client: Pick<Client, 'call'>): BulkClient {
  const verbs = {
    bulk: (body: BulkBody) => client.call(bulkJobs, { body }),
    bulkOperation: (id: string) => orUndefined(client.call(getBulkOperation, { params: { id } })),
    bulkOperations: async (query: ListBulkQuery = {}) =>
      (await client.call(listBulkOperations, { query })).items,
    cancelBulk: (id: string) => client.call(cancelBulkOperation, { params: { id } }),
  }
  return verbs as BulkClient
}

/** A schedule as the server shows it. */
export type WireSchedule = ShapeOf<typeof getSchedule>['reply']

/** The verbs of schedules, over HTTP. */
export interface SchedulesClient {
  /** Makes a schedule, or changes it to this; said again it changes nothing. */
  set(name: string, options: Omit<SetScheduleBody, 'name'>): Promise<WireSchedule>
  find(name: string): Promise<WireSchedule | undefined>
  list(options?: ListSchedulesQuery): Promise<ShapeOf<typeof listSchedules>['reply']>
  /** False: there was none. */
  remove(name: string): Promise<boolean>
  pause(name: string): Promise<WireSchedule>
  resume(name: string): Promise<WireSchedule>
  /** Adds its job now, out of turn. */
  run(name: string): Promise<ShapeOf<typeof runSchedule>['reply']>
}

export function createSchedulesClient(client: Pick<Client, 'call'>): SchedulesClient {
  return {
    set: (name, options) => client.call(setSchedule, { body: { ...options, name } }),
    find: (name) => orUndefined(client.call(getSchedule, { params: { name } })),
    list: (query = {}) =>
      client.call(listSchedules, { query, maxReplyBytes: Number(query.limit ?? 50) * maxScheduleBytes }),
    remove: async (name) => (await client.call(removeSchedule, { params: { name } })).removed,
    pause: (name) => client.call(pauseSchedule, { params: { name } }),
    resume: (name) => client.call(resumeSchedule, { params: { name } }),
    run: (name) => client.call(runSchedule, { params: { name } }),
  }
}

/** A payload of 256 KiB may be escaped, and there is something around it. */
const maxScheduleBytes = 2 * 1_048_576
