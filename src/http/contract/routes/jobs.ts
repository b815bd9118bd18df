import type { TUnsafe } from 'typebox'
import type { Duration } from '../../../core/duration.ts'
import type { Added, ClaimedJob, FoundJob, Job, JobState } from '../../../jobs/index.ts'
import { type IdParams, idParams, type Page } from '../page.ts'
import type { Route } from '../route.ts'
import { nameOptions, type Schema, schemaFor, strict, Type } from '../schema.ts'
import {
  type BackoffBody,
  backoff,
  backoffBody,
  failure,
  instant,
  instantOrNull,
  jobState,
  name,
  orNull,
  span,
} from '../values.ts'

/** Jobs are put in line, looked at and taken in hand. Bodies are the library's arguments and options, merged into one object. */

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
const jobObject = Type.Object(jobFields)
const claimedObject = Type.Object({
  ...jobFields,
  fence: orNull(Type.Integer()),
  snoozeCount: Type.Integer(),
  trace: orNull(Type.String()),
  token: Type.String(),
  leaseEndsAt: instant,
  handBackCount: Type.Integer(),
})
const progress = Type.Object({
  percent: orNull(Type.Number()),
  note: orNull(Type.String()),
  data: Type.Unknown(),
  at: instant,
  attempt: Type.Integer(),
})

const relatedJob = Type.Object({ id: Type.String(), state: orNull(jobState), isMet: Type.Boolean() })

export const jobSchema: Schema<Job> = schemaFor<Job>()(jobObject)
const foundSchema: Schema<FoundJob> = schemaFor<FoundJob>()(
  Type.Object({
    ...jobFields,
    progress: orNull(progress),
    snoozeCount: Type.Integer(),
    dependencies: Type.Array(relatedJob),
    dependents: Type.Array(relatedJob),
  }),
)

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
      onFailure: Type.Optional(
        Type.Union([Type.Literal('cancel'), Type.Literal('run'), Type.Literal('wait')]),
      ),
    },
    strict,
  ),
])
/** What may be said of a job whoever adds it: a caller or a schedule. */
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

/** Jobs to wait for, and what happens when one of them fails. */
export type AfterBody =
  | string
  | readonly string[]
  | { readonly jobs: string | readonly string[]; readonly onFailure?: 'cancel' | 'run' | 'wait' }

/** A job to add, as JSON. */
export interface JobToAddBody {
  readonly kind: string
  readonly payload?: unknown
  readonly queue?: string
  readonly priority?: number
  readonly uniqueKey?: string | null
  readonly runAt?: number
  readonly delayMs?: Duration
  readonly maxAttempts?: number
  readonly backoff?: BackoffBody
  readonly timeoutMs?: Duration | null
  readonly tags?: readonly string[]
  /** What the limits of its queue count it by. */
  readonly limitKey?: string | null
  /** It waits until these jobs have completed: ids, or refs of others in the same list. */
  readonly after?: AfterBody | null
  /** It waits in this line before each attempt. */
  readonly lock?: { readonly operation: string; readonly resource: string } | null
  /** What others in the same list may call it in their `after`. */
  readonly ref?: string
  /** Whose doing it is, as a W3C traceparent. */
  readonly trace?: string
}

/** The job that each run of a schedule adds. */
export type ScheduledJobBody = Omit<JobToAddBody, 'runAt' | 'delayMs' | 'after' | 'ref' | 'trace'>
export const scheduledJob: TUnsafe<ScheduledJobBody> = Type.Unsafe<ScheduledJobBody>(
  schemaFor<ScheduledJobBody>()(Type.Object(jobTerms, strict)),
)

export const addJobs: Route<{
  body: JobToAddBody | readonly JobToAddBody[]
  reply: Added | { readonly items: readonly Added[] }
}> = {
  id: 'addJobs',
  method: 'POST',
  path: '/v1/jobs',
  scope: 'work',
  module: 'jobs',
  summary: 'Put a job in line, or many: all or none.',
  description:
    'An object is one job and answers `{ id, duplicate }`; an array of up to 1,000 answers `{ items }` in order. ' +
    '201 when something was added, 200 when every job was a duplicate of a live one with its unique key. ' +
    'A payload that a box sealed (`{ "$sealed": … }`) says which id its job gets; `conflict` when there is one.',
  body: schemaFor<JobToAddBody | readonly JobToAddBody[]>()(
    Type.Union([jobToAdd, Type.Array(jobToAdd, { maxItems: 1_000 })]),
  ),
  replies: {
    200: schemaFor<Added | { readonly items: readonly Added[] }>()(
      Type.Union([added, Type.Object({ items: Type.Array(added) })]),
    ),
    201: schemaFor<Added | { readonly items: readonly Added[] }>()(
      Type.Union([added, Type.Object({ items: Type.Array(added) })]),
    ),
  },
  mutates: true,
  problems: ['conflict'],
  limits: { maxBytes: 8 * 1_048_576, maxKeys: 80_000 },
  limitsForLists: true,
}

export interface ListJobsQuery {
  readonly queue?: string
  readonly kind?: string
  readonly state?: JobState
  readonly search?: string
  readonly limit?: number
  readonly cursor?: string
}
/** A page of jobs; a search says also how many jobs it looked at, and which bound ended it. */
export interface JobsPage extends Page<Job> {
  readonly scanned?: number
  readonly stopped?: 'rows' | 'time' | null
}

export const listJobs: Route<{ query: ListJobsQuery; reply: JobsPage }> = {
  id: 'listJobs',
  method: 'GET',
  path: '/v1/jobs',
  scope: 'read',
  module: 'jobs',
  summary: 'List jobs, newest first.',
  description:
    'With `search`, those that its words and fields mean, found among up to 50,000 jobs in an eighth of a second. `stopped` says ' +
    'which of the two ended it, `scanned` how many were looked at, and `cursor` goes on from there. A list of a queue or kind ' +
    'that is rare among more than 50,000 jobs is ended by time in the same way: a short page is the last only if its `cursor` is null.',
  query: schemaFor<ListJobsQuery>()(
    Type.Object(
      {
        queue: Type.Optional(name),
        kind: Type.Optional(name),
        state: Type.Optional(jobState),
        search: Type.Optional(Type.String({ maxLength: 2_000 })),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
        cursor: Type.Optional(name),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<JobsPage>()(
      Type.Object({
        items: Type.Array(jobObject),
        cursor: orNull(Type.String()),
        scanned: Type.Optional(Type.Integer()),
        stopped: Type.Optional(Type.Union([Type.Literal('rows'), Type.Literal('time'), Type.Null()])),
      }),
    ),
  },
  mutates: false,
}

export const getJob: Route<{ params: IdParams; reply: FoundJob }> = {
  id: 'getJob',
  method: 'GET',
  path: '/v1/jobs/{id}',
  scope: 'read',
  module: 'jobs',
  summary: 'Look at one job, with how far its handler says it is.',
  description:
    'Whether a wish to cancel was obeyed: `cancelRequested` while it runs, then `cancelled`, or `completed` with ' +
    '`cancelIgnored`.',
  params: idParams,
  replies: { 200: foundSchema },
  mutates: false,
  problems: ['not_found'],
}

export interface ClaimBody {
  readonly queues?: readonly string[]
  readonly kinds?: readonly string[]
  readonly workerId?: string
  readonly limit?: number
  readonly leaseMs?: Duration
  /** Wait so long for a job when there is none. */
  readonly waitMs?: Duration
}

export const claimJobs: Route<{ body: ClaimBody; reply: Page<ClaimedJob> }> = {
  id: 'claimJobs',
  method: 'POST',
  path: '/v1/jobs/claim',
  scope: 'work',
  module: 'jobs',
  summary: 'Take due jobs in hand, each under a lease.',
  description:
    'With `waitMs` (up to 60 s) it waits for a job when there is none. No job is `{ items: [] }`, not an error. ' +
    'Who holds the `token` may renew, ack or nack until `leaseEndsAt`.',
  body: schemaFor<ClaimBody>()(
    Type.Object(
      {
        queues: Type.Optional(Type.Array(name, { minItems: 1, maxItems: 100 })),
        kinds: Type.Optional(Type.Array(name, { minItems: 1, maxItems: 1_000 })),
        workerId: Type.Optional(name),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 1 })),
        leaseMs: Type.Optional(span),
        waitMs: Type.Optional(span),
      },
      strict,
    ),
  ),
  bodyOptional: true,
  replies: {
    200: schemaFor<Page<ClaimedJob>>()(
      Type.Object({ items: Type.Array(claimedObject), cursor: orNull(Type.String()) }),
    ),
  },
  mutates: true,
  problems: ['too_many'],
}
