import type { FoundJob, JobEnd, JobLogLine, JobState } from '../../../jobs/index.ts'
import { type Route, route, type StreamEvents, streamOf } from '../route.ts'
import { object, type Schema, strictObject, Type } from '../schema.ts'
import { type IdParams, jobState, type NameParams, name, orNull, type WaitQuery, waitMs } from '../values.ts'
import { logLineSchema } from './attempts.ts'
import { progressSchema } from './jobs.ts'

/** Routes that wait for jobs and follow them. `getJob` returns one job with its result. */

interface WaitForJobsBody extends WaitQuery {
  readonly ids: readonly string[]
}

/** The state is null if the job does not exist. */
interface StateOfJob {
  readonly id: string
  readonly state: JobState | null
}

export const waitForJobs: Route<{
  body: WaitForJobsBody
  reply: { readonly items: readonly StateOfJob[] }
}> = {
  ...route('jobs', 'waitForJobs', 'POST /v1/jobs/wait', 'read'),
  summary: 'Get the states of up to 1,000 jobs as soon as one of them has ended.',
  description:
    'With `waitMs` (up to 60 s) the request waits until one of the jobs has ended or does not exist. The states are in ' +
    'the order of `ids`. A box on a server waits for all its jobs with one such request; `GET /v1/jobs/{id}` has the ' +
    'result.',
  body: strictObject({
    ids: Type.Array(name, { minItems: 1, maxItems: 1_000 }),
    waitMs: Type.Optional(waitMs),
  }),
  replies: {
    200: object({
      items: Type.Array(Type.Object({ id: Type.String(), state: orNull(jobState) })),
    }),
  },
  isRead: true,
}

/** The events of `watchJob`. */
interface JobWatchEvents {
  readonly state: Pick<
    FoundJob,
    | 'id'
    | 'state'
    | 'attempt'
    | 'maxAttempts'
    | 'runAt'
    | 'startedAt'
    | 'finishedAt'
    | 'workerId'
    | 'cancelRequested'
  >
  readonly progress: NonNullable<FoundJob['progress']>
  readonly log: JobLogLine
}

/** The events of `watchQueue`. */
interface QueueWatchEvents {
  readonly open: { readonly at: number }
  readonly completed: JobEnd
  readonly dead: JobEnd
  readonly cancelled: JobEnd
  readonly place: { readonly at: number }
}

const instant = Type.Integer({ minimum: 0 })

const jobWatchEventParts: StreamEvents<JobWatchEvents> = {
  state: {
    description: 'The present state, and each state that follows. An ended state is the last event.',
    data: object({
      id: Type.String(),
      state: jobState,
      attempt: Type.Integer(),
      maxAttempts: Type.Integer(),
      runAt: instant,
      startedAt: orNull(instant),
      finishedAt: orNull(instant),
      workerId: orNull(Type.String()),
      cancelRequested: Type.Boolean(),
    }),
  },
  progress: {
    description: 'What the attempt reported last.',
    data: progressSchema,
  },
  log: {
    description: 'A log line, in the order of writing.',
    data: logLineSchema,
  },
}

const place: Schema<{ readonly at: number }> = object({ at: instant })
const end: Schema<JobEnd> = object({
  id: Type.String(),
  kind: Type.String(),
  state: Type.Union([Type.Literal('completed'), Type.Literal('dead'), Type.Literal('cancelled')]),
  attempt: Type.Integer(),
  createdAt: instant,
  startedAt: orNull(instant),
  finishedAt: instant,
})
const queueWatchEventParts: StreamEvents<QueueWatchEvents> = {
  open: { description: 'The stream begins here.', data: place },
  completed: { description: 'A job was completed.', data: end },
  dead: { description: 'A job is dead.', data: end },
  cancelled: { description: 'A job was cancelled.', data: end },
  place: { description: 'The reader has everything up to here.', data: place },
}

export const watchJob: Route<{ params: IdParams }> = {
  ...route('jobs', 'watchJob', 'GET /v1/jobs/{id}/events', 'read'),
  summary: 'Stream a job: its states, its progress, its log lines.',
  description:
    'Events `state`, `progress` and `log`, from the present state to the end of the job, after which the stream ends. ' +
    'Without `Last-Event-ID` it begins with the first log line. With it, it continues behind that event, from the rows ' +
    'of the store: no log line is missed or repeated, and the latest state and progress are sent if they changed.',
  ...streamOf(jobWatchEventParts),
  problems: ['not_found', 'too_many'],
}

export const watchQueue: Route<{ params: NameParams }> = {
  ...route('jobs', 'watchQueue', 'GET /v1/queues/{name}/events', 'read'),
  summary: 'Stream the jobs of a queue that ended, in the order of their ends.',
  description:
    'Events `completed`, `dead` and `cancelled`, each with `id`, `kind`, `state`, `attempt`, `createdAt`, `startedAt` and ' +
    '`finishedAt`; `open` is the first. With `Last-Event-ID` it continues there, from the rows of the store, and may ' +
    'repeat jobs that ended up to 10 seconds earlier: tell them apart by `id` and `finishedAt`.',
  ...streamOf(queueWatchEventParts),
  problems: ['too_many'],
}
