import type { Added, AttemptOutcome, ClaimedJob, FoundJob, Job, JobState } from '../jobs/index.ts'
import type { Route } from './route.ts'
import { instantOptions, nameOptions, type Schema, schemaFor, spanPattern, strict, Type } from './schema.ts'

/** The routes of jobs. Bodies are the library's arguments and options, merged into one object. */

/** A page of a list; `cursor` is null at the end. */
export interface Page<Item> {
  readonly items: readonly Item[]
  readonly cursor: string | null
}

const name = Type.String(nameOptions)
const tag = Type.String({ ...nameOptions, maxLength: 64 })
const span = Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: spanPattern })])
const nullable = <S extends Parameters<typeof Type.Union>[0][number]>(schema: S) =>
  Type.Union([schema, Type.Null()])
const instant = Type.Integer(instantOptions)
const instantOrNull = nullable(instant)
const state = Type.Union([
  Type.Literal('scheduled'),
  Type.Literal('ready'),
  Type.Literal('waiting'),
  Type.Literal('running'),
  Type.Literal('completed'),
  Type.Literal('dead'),
  Type.Literal('cancelled'),
])
const jobError = Type.Object({
  name: Type.Optional(Type.String()),
  message: Type.String(),
  code: Type.Optional(Type.String()),
  stack: Type.Optional(Type.String()),
})
const backoff = Type.Object({
  baseMs: Type.Number(),
  factor: Type.Number(),
  jitter: Type.Number(),
  maxMs: Type.Number(),
})

const jobFields = {
  id: Type.String(),
  queue: Type.String(),
  kind: Type.String(),
  payload: Type.Unknown(),
  priority: Type.Integer(),
  uniqueKey: nullable(Type.String()),
  state,
  attempt: Type.Integer(),
  maxAttempts: Type.Integer(),
  runAt: instant,
  createdAt: instant,
  startedAt: instantOrNull,
  finishedAt: instantOrNull,
  result: Type.Unknown(),
  error: nullable(jobError),
  workerId: nullable(Type.String()),
  backoff,
  timeoutMs: nullable(Type.Integer()),
  tags: Type.Array(Type.String()),
  schedule: nullable(Type.Object({ name: Type.String(), slotAt: nullable(Type.Integer()) })),
  cancelRequested: Type.Boolean(),
  cancelIgnored: Type.Boolean(),
}
const jobObject = Type.Object(jobFields)
const claimedObject = Type.Object({
  ...jobFields,
  snoozeCount: Type.Integer(),
  trace: nullable(Type.String()),
  token: Type.String(),
  leaseEndsAt: instant,
  freeCount: Type.Integer(),
})
const progress = Type.Object({
  percent: nullable(Type.Number()),
  note: nullable(Type.String()),
  data: Type.Unknown(),
  at: instant,
  attempt: Type.Integer(),
})

export const jobSchema: Schema<Job> = schemaFor<Job>()(jobObject)
const foundSchema: Schema<FoundJob> = schemaFor<FoundJob>()(
  Type.Object({ ...jobFields, progress: nullable(progress), snoozeCount: Type.Integer() }),
)

const traceparent = Type.String({
  ...{ minLength: 55, maxLength: 55 },
  pattern: '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$',
})
const jobToAdd = Type.Object(
  {
    kind: name,
    payload: Type.Optional(Type.Unknown()),
    queue: Type.Optional(name),
    priority: Type.Optional(Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 })),
    uniqueKey: Type.Optional(nullable(name)),
    runAt: Type.Optional(instant),
    delayMs: Type.Optional(span),
    maxAttempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    backoff: Type.Optional(
      Type.Object(
        {
          baseMs: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
          factor: Type.Optional(Type.Number({ minimum: 1, maximum: 1_000 })),
          jitter: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
          maxMs: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
        },
        strict,
      ),
    ),
    timeoutMs: Type.Optional(nullable(span)),
    tags: Type.Optional(Type.Array(tag, { maxItems: 20 })),
    trace: Type.Optional(traceparent),
  },
  strict,
)
const added = Type.Object({ id: Type.String(), duplicate: Type.Boolean() })

/** A job to add, as JSON. */
export interface JobToAddBody {
  readonly kind: string
  readonly payload?: unknown
  readonly queue?: string
  readonly priority?: number
  readonly uniqueKey?: string | null
  readonly runAt?: number
  readonly delayMs?: number | string
  readonly maxAttempts?: number
  readonly backoff?: {
    readonly baseMs?: number
    readonly factor?: number
    readonly jitter?: number
    readonly maxMs?: number
  }
  readonly timeoutMs?: number | string | null
  readonly tags?: readonly string[]
  /** Whose doing it is, as a W3C traceparent. */
  readonly trace?: string
}

interface IdParams {
  readonly id: string
}
const idParams: Schema<IdParams> = schemaFor<IdParams>()(Type.Object({ id: name }, strict))

export const addJobs: Route<{
  body: JobToAddBody | readonly JobToAddBody[]
  reply: Added | { readonly items: readonly Added[] }
}> = {
  id: 'addJobs',
  method: 'POST',
  path: '/v1/jobs',
  scope: 'work',
  room: 'jobs',
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
  room: 'jobs',
  summary: 'List jobs, newest first.',
  description:
    'With `search`, those that its words and fields mean, found among up to 50,000 jobs in up to 2 seconds. `stopped` says ' +
    'which of the two ended it, `scanned` how many were looked at, and `cursor` goes on from there.',
  query: schemaFor<ListJobsQuery>()(
    Type.Object(
      {
        queue: Type.Optional(name),
        kind: Type.Optional(name),
        state: Type.Optional(state),
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
        cursor: nullable(Type.String()),
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
  room: 'jobs',
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
  readonly leaseMs?: number | string
  /** Wait so long for a job when there is none. */
  readonly waitMs?: number | string
}

export const claimJobs: Route<{ body: ClaimBody; reply: Page<ClaimedJob> }> = {
  id: 'claimJobs',
  method: 'POST',
  path: '/v1/jobs/claim',
  scope: 'work',
  room: 'jobs',
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
      Type.Object({ items: Type.Array(claimedObject), cursor: nullable(Type.String()) }),
    ),
  },
  mutates: true,
  problems: ['too_many'],
}

const token = Type.String({ minLength: 1, maxLength: 191 })

export interface AckBody {
  readonly token: string
  readonly result?: unknown
  /** How long the handler ran, so that `startedAt` is its real start. */
  readonly ranMs?: number
}

export interface Settled {
  readonly id: string
  readonly state: JobState
}
const settled: Schema<Settled> = schemaFor<Settled>()(Type.Object({ id: Type.String(), state }))
const ranMs = Type.Optional(Type.Integer({ minimum: 0, maximum: 31_557_600_000 }))

export const ackJob: Route<{ params: IdParams; body: AckBody; reply: Settled }> = {
  id: 'ackJob',
  method: 'POST',
  path: '/v1/jobs/{id}/ack',
  scope: 'work',
  room: 'jobs',
  summary: 'The job is done.',
  params: idParams,
  body: schemaFor<AckBody>()(Type.Object({ token, result: Type.Optional(Type.Unknown()), ranMs }, strict)),
  replies: { 200: settled },
  mutates: true,
  problems: ['lease_lost'],
}

export interface NackBody {
  readonly token: string
  /** Why: text, or `{ name, message, code, stack }`. */
  readonly error?: unknown
  readonly retryInMs?: number | string
  readonly dead?: boolean
  /** Back in line at once without burning an attempt, as a stopping worker does; ten times a job, then it counts. */
  readonly handBack?: boolean
  /** Back in line after so long without burning an attempt, as often as you like. */
  readonly snoozeMs?: number | string
  readonly ranMs?: number
}

export const nackJob: Route<{ params: IdParams; body: NackBody; reply: Settled }> = {
  id: 'nackJob',
  method: 'POST',
  path: '/v1/jobs/{id}/nack',
  scope: 'work',
  room: 'jobs',
  summary: 'The job failed: back in line after its back-off, or dead.',
  description:
    '`handBack` puts it back in line at once without burning an attempt (ten times a job, then it counts), ' +
    '`snoozeMs` after so long, as often as you like. ' +
    'A job whose cancellation was asked for ends `cancelled`.',
  params: idParams,
  body: schemaFor<NackBody>()(
    Type.Object(
      {
        token,
        error: Type.Optional(Type.Unknown()),
        retryInMs: Type.Optional(span),
        dead: Type.Optional(Type.Boolean()),
        handBack: Type.Optional(Type.Boolean()),
        snoozeMs: Type.Optional(span),
        ranMs,
      },
      strict,
    ),
  ),
  replies: { 200: settled },
  mutates: true,
  problems: ['lease_lost'],
}

export interface RenewBody {
  readonly token: string
  readonly leaseMs?: number | string
}
export interface Renewed {
  readonly leaseEndsAt: number
  readonly cancelRequested: boolean
}

export const renewJob: Route<{ params: IdParams; body: RenewBody; reply: Renewed }> = {
  id: 'renewJob',
  method: 'POST',
  path: '/v1/jobs/{id}/renew',
  scope: 'work',
  room: 'jobs',
  summary: 'Keep the job for another `leaseMs`; learn whether somebody wants it cancelled.',
  params: idParams,
  body: schemaFor<RenewBody>()(Type.Object({ token, leaseMs: Type.Optional(span) }, strict)),
  replies: {
    200: schemaFor<Renewed>()(Type.Object({ leaseEndsAt: instant, cancelRequested: Type.Boolean() })),
  },
  mutates: true,
  problems: ['lease_lost'],
}

export interface HeldBody {
  readonly items: readonly { readonly id: string; readonly token: string }[]
}
export interface HeldReply {
  readonly items: readonly {
    readonly id: string
    readonly outcome: AttemptOutcome
    readonly cancelRequested: boolean
  }[]
}

export const checkHeld: Route<{ body: HeldBody; reply: HeldReply }> = {
  id: 'checkHeld',
  method: 'POST',
  path: '/v1/jobs/held',
  scope: 'work',
  room: 'jobs',
  summary: 'What has become of these attempts, and which of them somebody wants cancelled. Changes nothing.',
  body: schemaFor<HeldBody>()(
    Type.Object({ items: Type.Array(Type.Object({ id: name, token }, strict), { maxItems: 1_000 }) }, strict),
  ),
  replies: {
    200: schemaFor<HeldReply>()(
      Type.Object({
        items: Type.Array(
          Type.Object({
            id: Type.String(),
            outcome: Type.Union([Type.Literal('settled'), Type.Literal('held'), Type.Literal('lost')]),
            cancelRequested: Type.Boolean(),
          }),
        ),
      }),
    ),
  },
  mutates: false,
}

export interface Cancelled {
  readonly state: JobState
  readonly cancelRequested: boolean
}

export const cancelJob: Route<{ params: IdParams; reply: Cancelled }> = {
  id: 'cancelJob',
  method: 'POST',
  path: '/v1/jobs/{id}/cancel',
  scope: 'work',
  room: 'jobs',
  summary: 'End a job that is not running, and ask the worker of one that is.',
  params: idParams,
  replies: { 200: schemaFor<Cancelled>()(Type.Object({ state, cancelRequested: Type.Boolean() })) },
  mutates: true,
  problems: ['not_found'],
}

export interface Retried {
  readonly id: string
  readonly state: 'ready'
}

export const retryJob: Route<{ params: IdParams; reply: Retried }> = {
  id: 'retryJob',
  method: 'POST',
  path: '/v1/jobs/{id}/retry',
  scope: 'work',
  room: 'jobs',
  summary: 'Make a job that ended ready again, with attempt 0.',
  params: idParams,
  replies: { 200: schemaFor<Retried>()(Type.Object({ id: Type.String(), state: Type.Literal('ready') })) },
  mutates: true,
  problems: ['not_found', 'conflict'],
}

export interface RetryDeadBody {
  readonly queue?: string
  readonly kind?: string
  readonly limit?: number
}

export const retryDeadJobs: Route<{ body: RetryDeadBody; reply: { readonly retried: number } }> = {
  id: 'retryDeadJobs',
  method: 'POST',
  path: '/v1/jobs/retry-dead',
  scope: 'admin',
  room: 'jobs',
  summary: 'Make dead jobs ready again, oldest first.',
  body: schemaFor<RetryDeadBody>()(
    Type.Object(
      {
        queue: Type.Optional(name),
        kind: Type.Optional(name),
        limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, default: 1_000 })),
      },
      strict,
    ),
  ),
  bodyOptional: true,
  replies: { 200: schemaFor<{ readonly retried: number }>()(Type.Object({ retried: Type.Integer() })) },
  mutates: true,
}

export interface PruneBody {
  readonly olderThanMs: number | string
}

export const pruneJobs: Route<{ body: PruneBody; reply: { readonly pruned: number } }> = {
  id: 'pruneJobs',
  method: 'POST',
  path: '/v1/jobs/prune',
  scope: 'admin',
  room: 'jobs',
  summary: 'Forget jobs that ended longer ago than that.',
  body: schemaFor<PruneBody>()(Type.Object({ olderThanMs: span }, strict)),
  replies: { 200: schemaFor<{ readonly pruned: number }>()(Type.Object({ pruned: Type.Integer() })) },
  mutates: true,
}
