import type { TUnsafe } from 'typebox'
import type { Duration } from '../../../core/duration.ts'
import type {
  Added,
  ClaimedJob,
  ClaimOptions,
  FoundJob,
  Job,
  JobToAdd,
  ListOptions,
  SearchPage,
} from '../../../jobs/index.ts'
import { type Route, route } from '../route.ts'
import {
  exactly,
  nameOptions,
  object,
  oneOf,
  part,
  queryObject,
  type Schema,
  type Sent,
  strict,
  strictObject,
  Type,
} from '../schema.ts'
import {
  backoff,
  backoffBody,
  failure,
  type IdParams,
  instant,
  instantOrNull,
  jobState,
  name,
  orNull,
  type Page,
  span,
  type WaitQuery,
  waitMs,
} from '../values.ts'

/** Routes that add, list, get and claim jobs. A body has the arguments and options of the library in one object. */

const tag = Type.String({ ...nameOptions, maxLength: 64 })

const jobFields = {
  id: Type.String(),
  queue: Type.String(),
  kind: Type.String(),
  payload: Type.Unknown(),
  priority: Type.Integer(),
  uniqueKey: orNull(Type.String()),
  state: jobState,
  attempt: Type.Integer(),
  maxAttempts: Type.Integer(),
  runAt: instant,
  createdAt: instant,
  startedAt: instantOrNull,
  finishedAt: instantOrNull,
  result: Type.Unknown(),
  error: orNull(failure),
  workerId: orNull(Type.String()),
  backoff,
  timeoutMs: orNull(Type.Integer()),
  tags: Type.Array(Type.String()),
  limitKey: orNull(Type.String()),
  lock: orNull(Type.Object({ operation: Type.String(), resource: Type.String() })),
  schedule: orNull(Type.Object({ name: Type.String(), slotAt: orNull(Type.Integer()) })),
  cancelRequested: Type.Boolean(),
  cancelIgnored: Type.Boolean(),
}
const claimedObject = Type.Object({
  ...jobFields,
  fence: orNull(Type.Integer()),
  snoozeCount: Type.Integer(),
  trace: orNull(Type.String()),
  token: Type.String(),
  leaseEndsAt: instant,
  handBackCount: Type.Integer(),
})
export const progressSchema: Schema<NonNullable<FoundJob['progress']>> = object({
  percent: orNull(Type.Number()),
  note: orNull(Type.String()),
  data: Type.Unknown(),
  at: instant,
  attempt: Type.Integer(),
})

const relatedJob = Type.Object({ id: Type.String(), state: orNull(jobState), isMet: Type.Boolean() })

export const jobSchema: Schema<Job> = object(jobFields)
const foundSchema: Schema<FoundJob> = object({
  ...jobFields,
  progress: orNull(part(progressSchema)),
  snoozeCount: Type.Integer(),
  dependencies: Type.Array(relatedJob),
  dependents: Type.Array(relatedJob),
  attempts: Type.Array(
    Type.Object({
      number: Type.Integer(),
      attempt: Type.Integer(),
      outcome: oneOf('failed', 'dead', 'lost'),
      workerId: orNull(Type.String()),
      release: orNull(Type.String()),
      startedAt: instantOrNull,
      endedAt: instant,
      error: failure,
      fingerprint: Type.String(),
    }),
  ),
  blocked: Type.Array(
    Type.Object({ cause: oneOf('dependencies', 'lock'), startedAt: instant, endedAt: instantOrNull }),
  ),
})

const traceparent = Type.String({
  ...{ minLength: 55, maxLength: 55 },
  pattern: '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
})
const names = Type.Union([name, Type.Array(name, { maxItems: 1_000 })])
const after = Type.Union([
  ...names.anyOf,
  Type.Object(
    {
      jobs: names,
      onFailure: Type.Optional(oneOf('cancel', 'run', 'wait')),
    },
    strict,
  ),
])
/** The fields of a job that callers and schedules can set. */
const jobTerms = {
  kind: name,
  payload: Type.Optional(Type.Unknown()),
  queue: Type.Optional(name),
  priority: Type.Optional(Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 })),
  uniqueKey: Type.Optional(orNull(name)),
  maxAttempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
  backoff: Type.Optional(backoffBody),
  timeoutMs: Type.Optional(orNull(span)),
  tags: Type.Optional(Type.Array(tag, { maxItems: 20 })),
  limitKey: Type.Optional(orNull(name)),
  lock: Type.Optional(orNull(Type.Object({ operation: name, resource: name }, strict))),
}
const jobToAdd = Type.Object(
  {
    ...jobTerms,
    runAt: Type.Optional(instant),
    delayMs: Type.Optional(span),
    after: Type.Optional(orNull(after)),
    ref: Type.Optional(name),
    trace: Type.Optional(traceparent),
  },
  strict,
)
const added = Type.Object({ id: Type.String(), duplicate: Type.Boolean() })
type AddReply = Added | { readonly items: readonly Added[] }
const addReply: Schema<AddReply> = exactly(Type.Union([added, Type.Object({ items: Type.Array(added) })]))

/** A job to add, as JSON. */
export type JobToAddBody = Sent<JobToAdd>

/** The job that each run of a schedule adds. */
export type ScheduledJobBody = Omit<JobToAddBody, 'runAt' | 'delayMs' | 'after' | 'ref' | 'trace'>
export const scheduledJob: TUnsafe<ScheduledJobBody> = part(strictObject(jobTerms))

export const addJobs: Route<{
  body: JobToAddBody | readonly JobToAddBody[]
  reply: AddReply
}> = {
  ...route('jobs', 'addJobs', 'POST /v1/jobs', 'work'),
  summary: 'Add a job, or several: all or none.',
  description:
    'An object is one job: the reply is `{ id, duplicate }`. An array of up to 1,000 jobs gets `{ items }` in the ' +
    'same order. 201 when a job was added, 200 when every job was a duplicate of a live job with its unique key. ' +
    'An encrypted payload (`{ "$sealed": … }`) names the id of its job; `conflict` when that id exists.',
  body: exactly(Type.Union([jobToAdd, Type.Array(jobToAdd, { maxItems: 1_000 })])),
  replies: { 200: addReply, 201: addReply },
  problems: ['conflict'],
  limits: { maxBytes: 8 * 1_048_576, maxKeys: 80_000 },
  limitsForLists: true,
}

/** A page of jobs. A search also returns the number of jobs that it read, and the limit that ended it. */
export type JobsPage = Page<Job> & Partial<Pick<SearchPage, 'scanned' | 'stopped'>>

export const listJobs: Route<{ query: ListOptions; reply: JobsPage }> = {
  ...route('jobs', 'listJobs', 'GET /v1/jobs', 'read'),
  summary: 'List jobs, newest first.',
  description:
    '`search` filters by words and fields. One request looks at up to 50,000 jobs for an eighth of a second: ' +
    '`stopped` names the limit that ended it, `scanned` the number of jobs it looked at, and `cursor` continues ' +
    'from there. A list by queue or kind is limited in the same way. A short page is the last one only if its ' +
    '`cursor` is null.',
  query: queryObject({
    queue: Type.Optional(name),
    kind: Type.Optional(name),
    state: Type.Optional(jobState),
    search: Type.Optional(Type.String({ maxLength: 2_000 })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(name),
  }),
  replies: {
    200: object({
      items: Type.Array(part(jobSchema)),
      cursor: orNull(Type.String()),
      scanned: Type.Optional(Type.Integer()),
      stopped: Type.Optional(Type.Union([Type.Literal('rows'), Type.Literal('time'), Type.Null()])),
    }),
  },
}

export const getJob: Route<{ params: IdParams; query: WaitQuery; reply: FoundJob }> = {
  ...route('jobs', 'getJob', 'GET /v1/jobs/{id}', 'read'),
  summary: 'Get a job, with its progress and its failed attempts.',
  description:
    '`attempts` has the last 50 attempts that failed or were lost, `blocked` the times in which the job waited for ' +
    'other jobs or for its lock. A cancellation request shows as `cancelRequested` while the job runs. Then the job is ' +
    '`cancelled`, or `completed` with `cancelIgnored`. With `waitMs` (up to 60 s) the request waits until the job has ' +
    'ended, and answers how it stands when the time is over: `finishedAt` is null then.',
  query: strictObject({ waitMs: Type.Optional(waitMs) }),
  replies: { 200: foundSchema },
  problems: ['not_found'],
}

export interface ClaimBody extends ClaimOptions {
  /** How long to wait if no job is ready. */
  readonly waitMs?: Duration | undefined
}

/** Claimed jobs. If an operator wants the worker quiet or stopped, `wanted` says so and the worker gets no jobs. */
interface ClaimReply extends Page<ClaimedJob> {
  readonly wanted?: 'quiet' | 'stop'
}

export const claimJobs: Route<{ body: ClaimBody; reply: ClaimReply }> = {
  ...route('jobs', 'claimJobs', 'POST /v1/jobs/claim', 'work'),
  summary: 'Claim ready jobs, each with a lease.',
  description:
    'With `waitMs` (up to 60 s) the request waits for a job. No job is `{ items: [] }`, not an error. The `token` ' +
    'renews, acks or nacks the job until `leaseEndsAt`. With a `workerId` the caller is listed at `GET /v1/workers`; while ' +
    'an operator wants it quiet or stopped, it gets no jobs, and the reply has `wanted`.',
  body: strictObject({
    queues: Type.Optional(Type.Array(name, { minItems: 1, maxItems: 100 })),
    kinds: Type.Optional(Type.Array(name, { minItems: 1, maxItems: 1_000 })),
    workerId: Type.Optional(name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 1 })),
    leaseMs: Type.Optional(span),
    waitMs: Type.Optional(span),
  }),
  bodyOptional: true,
  replies: {
    200: object({
      items: Type.Array(claimedObject),
      cursor: orNull(Type.String()),
      wanted: Type.Optional(oneOf('quiet', 'stop')),
    }),
  },
  problems: ['too_many'],
}
