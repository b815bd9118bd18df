import type { LimitOptions, QueueStats } from '../../../jobs/index.ts'
import { type Route, route, streamOf } from '../route.ts'
import { instantOptions, object, part, type Schema, strict, strictObject, Type } from '../schema.ts'
import { type NameParams, nothing, orNull, type Page, span, type WaitQuery, waitMs } from '../values.ts'

/** Routes of queues: counts, pause and resume, limits, and hints for workers. */

const rate = Type.Object({ count: Type.Integer(), perMs: Type.Integer() })
const limit = { concurrency: orNull(Type.Integer()), rate: orNull(rate) }
const queueLimits = Type.Object({ ...limit, perKey: orNull(Type.Object(limit)) })

export const queueStatsSchema: Schema<QueueStats> = object({
  queue: Type.String(),
  paused: Type.Boolean(),
  limits: orNull(queueLimits),
  scheduled: Type.Integer(),
  ready: Type.Integer(),
  waiting: Type.Integer(),
  running: Type.Integer(),
  dead: Type.Integer(),
  approximate: Type.Boolean(),
  oldestReadyAt: orNull(Type.Integer(instantOptions)),
})

/** All queues; `counting` as in `Overview`. */
interface QueuesPage extends Page<QueueStats> {
  readonly counting?: boolean
}

export const listQueues: Route<{ query: WaitQuery; reply: QueuesPage }> = {
  ...route('jobs', 'listQueues', 'GET /v1/queues', 'read'),
  summary: 'List queues with the number of jobs by state.',
  description:
    'Counts of a state below 10,000 are exact. Larger ones are estimates, and the queue then has `approximate: true`. ' +
    'Counting takes some milliseconds, and longer for each queue of more than 2,000 jobs. With `waitMs` the request ' +
    'does not wait longer: the reply then has `counting: true` and the previous counts, which may be empty. Ask again ' +
    'soon.',
  query: strictObject({ waitMs: Type.Optional(waitMs) }),
  replies: {
    200: object({
      items: Type.Array(part(queueStatsSchema)),
      cursor: orNull(Type.String()),
      counting: Type.Optional(Type.Boolean()),
    }),
  },
}

export type QueueSwitched = Pick<QueueStats, 'queue' | 'paused'>
const switched: Schema<QueueSwitched> = object({
  queue: Type.String(),
  paused: Type.Boolean(),
})

export const pauseQueue: Route<{ params: NameParams; reply: QueueSwitched }> = {
  ...route('jobs', 'pauseQueue', 'POST /v1/queues/{name}/pause', 'admin'),
  summary: 'Pause a queue: no new jobs start until it is resumed. Running jobs continue.',
  replies: { 200: switched },
}

export const resumeQueue: Route<{ params: NameParams; reply: QueueSwitched }> = {
  ...route('jobs', 'resumeQueue', 'POST /v1/queues/{name}/resume', 'admin'),
  summary: 'Resume a queue.',
  replies: { 200: switched },
}

const limitToSet = {
  concurrency: Type.Optional(orNull(Type.Integer({ minimum: 1, maximum: 1_000_000 }))),
  rate: Type.Optional(
    orNull(Type.Object({ count: Type.Integer({ minimum: 1, maximum: 1_000_000 }), perMs: span }, strict)),
  ),
}

export type LimitQueueBody = LimitOptions
export type QueueLimited = Pick<QueueStats, 'queue' | 'limits'>
const limited: Schema<QueueLimited> = object({
  queue: Type.String(),
  limits: orNull(queueLimits),
})

export const limitQueue: Route<{ params: NameParams; body: LimitQueueBody; reply: QueueLimited }> = {
  ...route('jobs', 'limitQueue', 'POST /v1/queues/{name}/limits', 'admin'),
  summary: 'Limit how many jobs of a queue, and of each `limitKey`, run at once and start within a time.',
  body: strictObject({
    ...limitToSet,
    perKey: Type.Optional(orNull(Type.Object(limitToSet, strict))),
  }),
  replies: { 200: limited },
}

export const unlimitQueue: Route<{ params: NameParams; reply: QueueLimited }> = {
  ...route('jobs', 'unlimitQueue', 'DELETE /v1/queues/{name}/limits', 'admin'),
  summary: 'Remove the limits of a queue.',
  replies: { 200: limited },
}

export const wakeQueue: Route<{ params: NameParams; reply: { readonly queue: string } }> = {
  ...route('jobs', 'wakeQueue', 'POST /v1/queues/{name}/wake', 'work'),
  summary: 'Wake waiting workers of a queue.',
  replies: { 200: object({ queue: Type.String() }) },
}

interface JobEventsQuery {
  /** Queue names; several are separated by commas, each percent-encoded. */
  readonly queues?: string
}

/** The events for remote workers: hints to claim, never the jobs themselves. */
const hints = {
  open: { description: 'From here on hints are heard.', data: nothing },
  ready: {
    description: 'There may be a job in this queue.',
    data: Type.Object({ queue: Type.String() }),
  },
  cancel: {
    description:
      'A running job has a cancellation request. Renew, or call /v1/jobs/held, to learn which job.',
    data: nothing,
  },
}

export const jobEvents: Route<{ query: JobEventsQuery }> = {
  ...route('jobs', 'jobEvents', 'GET /v1/jobs/events', 'work'),
  summary: 'Stream hints for workers: `ready { queue }` and `cancel`. Poll as well: a hint may be lost.',
  query: strictObject({
    queues: Type.Optional(Type.String({ minLength: 1, maxLength: 8_192 })),
  }),
  ...streamOf(hints),
  problems: ['too_many'],
}
