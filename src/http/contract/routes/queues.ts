import type { Duration } from '../../../core/duration.ts'
import type { QueueLimits, QueueStats } from '../../../jobs/index.ts'
import type { Page } from '../page.ts'
import type { Route } from '../route.ts'
import { instantOptions, type Schema, schemaFor, strict, Type } from '../schema.ts'
import { name, orNull, span, waitMs } from '../values.ts'

/** The routes of queues: how they stand, pausing and resuming them, and hints for those who wait for their jobs. */

const rate = Type.Object({ count: Type.Integer(), perMs: Type.Integer() })
const limit = { concurrency: orNull(Type.Integer()), rate: orNull(rate) }
const queueLimits = Type.Object({ ...limit, perKey: orNull(Type.Object(limit)) })

const queueStats = Type.Object({
  queue: Type.String(),
  paused: Type.Boolean(),
  limits: orNull(queueLimits),
  scheduled: Type.Integer(),
  ready: Type.Integer(),
  waiting: Type.Integer(),
  running: Type.Integer(),
  dead: Type.Integer(),
  oldestReadyAt: Type.Union([Type.Integer(instantOptions), Type.Null()]),
})
export const queueStatsSchema: Schema<QueueStats> = schemaFor<QueueStats>()(queueStats)

export interface ListQueuesQuery {
  /** How long to wait for a count of very many jobs. @default until it is there */
  readonly waitMs?: number
}

/** Every queue; `counting` as in `Overview`. */
export interface QueuesPage extends Page<QueueStats> {
  readonly counting?: boolean
}

export const listQueues: Route<{ query: ListQueuesQuery; reply: QueuesPage }> = {
  id: 'listQueues',
  method: 'GET',
  path: '/v1/queues',
  scope: 'read',
  module: 'jobs',
  summary: 'Every queue with the number of its jobs by state.',
  description:
    'Counting a million jobs takes about half a second. Whoever would rather not wait for it says so with `waitMs`: when that is ' +
    'over and the count is not there, the answer has `counting: true` and the counts from before, which may be none. Ask again soon.',
  query: schemaFor<ListQueuesQuery>()(Type.Object({ waitMs: Type.Optional(waitMs) }, strict)),
  replies: {
    200: schemaFor<QueuesPage>()(
      Type.Object({
        items: Type.Array(queueStats),
        cursor: Type.Union([Type.String(), Type.Null()]),
        counting: Type.Optional(Type.Boolean()),
      }),
    ),
  },
  mutates: false,
}

interface QueueParams {
  readonly name: string
}
const queueParams: Schema<QueueParams> = schemaFor<QueueParams>()(Type.Object({ name }, strict))

export interface QueueSwitched {
  readonly queue: string
  readonly paused: boolean
}
const switched: Schema<QueueSwitched> = schemaFor<QueueSwitched>()(
  Type.Object({ queue: Type.String(), paused: Type.Boolean() }),
)

export const pauseQueue: Route<{ params: QueueParams; reply: QueueSwitched }> = {
  id: 'pauseQueue',
  method: 'POST',
  path: '/v1/queues/{name}/pause',
  scope: 'admin',
  module: 'jobs',
  summary: 'Hand out nothing of this queue until it is resumed; what runs goes on.',
  params: queueParams,
  replies: { 200: switched },
  mutates: true,
}

export const resumeQueue: Route<{ params: QueueParams; reply: QueueSwitched }> = {
  id: 'resumeQueue',
  method: 'POST',
  path: '/v1/queues/{name}/resume',
  scope: 'admin',
  module: 'jobs',
  summary: 'Hand out jobs of this queue again.',
  params: queueParams,
  replies: { 200: switched },
  mutates: true,
}

const limitToSet = {
  concurrency: Type.Optional(orNull(Type.Integer({ minimum: 1, maximum: 1_000_000 }))),
  rate: Type.Optional(
    orNull(Type.Object({ count: Type.Integer({ minimum: 1, maximum: 1_000_000 }), perMs: span }, strict)),
  ),
}

interface LimitBody {
  readonly concurrency?: number | null
  readonly rate?: { readonly count: number; readonly perMs: Duration } | null
}

/** Limits to set; at least one must be there. */
export interface LimitQueueBody extends LimitBody {
  /** The same for each `limitKey`. */
  readonly perKey?: LimitBody | null
}

export interface QueueLimited {
  readonly queue: string
  readonly limits: QueueLimits | null
}
const limited: Schema<QueueLimited> = schemaFor<QueueLimited>()(
  Type.Object({ queue: Type.String(), limits: orNull(queueLimits) }),
)

export const limitQueue: Route<{ params: QueueParams; body: LimitQueueBody; reply: QueueLimited }> = {
  id: 'limitQueue',
  method: 'POST',
  path: '/v1/queues/{name}/limits',
  scope: 'admin',
  module: 'jobs',
  summary:
    'Set how many of its jobs may run at once and start in a time: of the queue, and of each `limitKey`.',
  params: queueParams,
  body: schemaFor<LimitQueueBody>()(
    Type.Object({ ...limitToSet, perKey: Type.Optional(orNull(Type.Object(limitToSet, strict))) }, strict),
  ),
  replies: { 200: limited },
  mutates: true,
}

export const unlimitQueue: Route<{ params: QueueParams; reply: QueueLimited }> = {
  id: 'unlimitQueue',
  method: 'DELETE',
  path: '/v1/queues/{name}/limits',
  scope: 'admin',
  module: 'jobs',
  summary: 'Lift the limits of a queue.',
  params: queueParams,
  replies: { 200: limited },
  mutates: true,
}

export const wakeQueue: Route<{ params: QueueParams; reply: { readonly queue: string } }> = {
  id: 'wakeQueue',
  method: 'POST',
  path: '/v1/queues/{name}/wake',
  scope: 'work',
  module: 'jobs',
  summary: 'Tell waiting workers to look now.',
  params: queueParams,
  replies: { 200: schemaFor<{ readonly queue: string }>()(Type.Object({ queue: Type.String() })) },
  mutates: true,
}

export interface JobEventsQuery {
  /** Queue names; several are separated by commas, each percent-encoded. */
  readonly queues?: string
}

/** What a remote worker hears: hints, never the news itself. */
export interface JobEvents {
  /** There may be a job in this queue. */
  readonly ready: { readonly queue: string }
  /** Somebody wants a running job cancelled. */
  readonly cancel: Readonly<Record<string, never>>
}

export const jobEvents: Route<{ query: JobEventsQuery }> = {
  id: 'jobEvents',
  method: 'GET',
  path: '/v1/jobs/events',
  scope: 'work',
  module: 'jobs',
  summary: 'A stream of hints for workers: `ready { queue }` and `cancel`. Poll as well: a hint may be lost.',
  query: schemaFor<JobEventsQuery>()(
    Type.Object({ queues: Type.Optional(Type.String({ minLength: 1, maxLength: 8_192 })) }, strict),
  ),
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  replyType: 'events',
  mutates: false,
  problems: ['too_many'],
}
