import type { Duration } from '../../../core/duration.ts'
import type {
  AckOptions,
  AttemptOutcome,
  ClaimedJob,
  ErrorGroup,
  ErrorGroupOptions,
  ErrorGroupPage,
  Job,
  JobLogLine,
  LogsOptions,
  NackOptions,
  NoteOptions,
  Renewal,
} from '../../../jobs/index.ts'
import { type Route, route } from '../route.ts'
import {
  instantOptions,
  object,
  oneOf,
  queryObject,
  type Schema,
  type Sent,
  strict,
  strictObject,
  Type,
} from '../schema.ts'
import {
  backoffBody,
  failure,
  type IdParams,
  instant,
  jobState,
  name,
  orNull,
  type Page,
  pageOf,
  span,
} from '../values.ts'

/** Routes for the worker that holds the token of a job: ack, nack, renew, progress and logs. */

const token = Type.String({ minLength: 1, maxLength: 191 })

export interface AckBody extends Sent<AckOptions> {
  readonly token: string
}

export type Settled = Pick<Job, 'id' | 'state'>
const settled: Schema<Settled> = object({ id: Type.String(), state: jobState })
const ranMs = Type.Optional(Type.Integer({ minimum: 0, maximum: 31_557_600_000 }))

export const ackJob: Route<{ params: IdParams; body: AckBody; reply: Settled }> = {
  ...route('jobs', 'ackJob', 'POST /v1/jobs/{id}/ack', 'work'),
  relieves: true,
  summary: 'Complete a job.',
  body: strictObject({ token, result: Type.Optional(Type.Unknown()), ranMs }),
  replies: { 200: settled },
  problems: ['lease_lost'],
}

export interface NackBody extends Sent<NackOptions> {
  readonly token: string
}

export const nackJob: Route<{ params: IdParams; body: NackBody; reply: Settled }> = {
  ...route('jobs', 'nackJob', 'POST /v1/jobs/{id}/nack', 'work'),
  relieves: true,
  summary: 'Fail a job: it is tried again after its back-off, or it is dead.',
  description:
    '`error` may be any JSON value; an object is kept whole, as `error.details`. Give `retryInMs` (the wait ' +
    'before the next attempt) or `backoff` (the back-off to compute it from). `handBack` makes the job ready at ' +
    'once and `snoozeMs` after that time, both without counting an attempt; `handBack` works ten times a job. A ' +
    'job with a cancellation request ends `cancelled`.',
  body: strictObject({
    token,
    error: Type.Optional(Type.Unknown()),
    retryInMs: Type.Optional(span),
    backoff: Type.Optional(backoffBody),
    dead: Type.Optional(Type.Boolean()),
    handBack: Type.Optional(Type.Boolean()),
    snoozeMs: Type.Optional(span),
    ranMs,
  }),
  replies: { 200: settled },
  problems: ['lease_lost'],
}

interface RenewBody {
  readonly token: string
  readonly leaseMs?: Duration | undefined
}
export type Renewed = Pick<Renewal, 'leaseEndsAt' | 'cancelRequested'>

export const renewJob: Route<{ params: IdParams; body: RenewBody; reply: Renewed }> = {
  ...route('jobs', 'renewJob', 'POST /v1/jobs/{id}/renew', 'work'),
  relieves: true,
  summary: 'Extend the lease by `leaseMs`, and learn whether cancellation was requested.',
  body: strictObject({ token, leaseMs: Type.Optional(span) }),
  replies: {
    200: object({ leaseEndsAt: instant, cancelRequested: Type.Boolean() }),
  },
  problems: ['lease_lost'],
}

interface CheckedJob {
  readonly id: string
  readonly outcome: AttemptOutcome
  readonly cancelRequested: boolean
}

export const checkHeld: Route<{
  body: { readonly items: readonly Pick<ClaimedJob, 'id' | 'token'>[] }
  reply: { readonly items: readonly CheckedJob[] }
}> = {
  ...route('jobs', 'checkHeld', 'POST /v1/jobs/held', 'work'),
  relieves: true,
  summary: 'Look up the outcome of attempts, and which of them have a cancellation request. Changes nothing.',
  body: strictObject({
    items: Type.Array(Type.Object({ id: name, token }, strict), { maxItems: 1_000 }),
  }),
  replies: {
    200: object({
      items: Type.Array(
        Type.Object({
          id: Type.String(),
          outcome: oneOf('settled', 'held', 'lost'),
          cancelRequested: Type.Boolean(),
        }),
      ),
    }),
  },
  isRead: true,
}

const level = oneOf('info', 'warn', 'error')

export interface LogBody extends Pick<NoteOptions, 'logs'> {
  readonly token: string
  /** The attempt, because its last lines may arrive after its end. */
  readonly attempt?: number | undefined
  readonly progress?: {
    readonly percent?: number | null | undefined
    readonly note?: string | null | undefined
    readonly data?: unknown
  }
}

export const logJob: Route<{ params: IdParams; body: LogBody; reply: { readonly id: string } }> = {
  ...route('jobs', 'logJob', 'POST /v1/jobs/{id}/notes', 'work'),
  summary: 'Report the progress of a running job, and write log lines about it.',
  description:
    'The latest progress replaces the one before. The server keeps 500 log lines and 65,536 bytes of an attempt; ' +
    'a last line says how many were dropped. With `attempt`, last lines are accepted after the attempt was acked ' +
    'or nacked.',
  body: strictObject({
    token: Type.String({ minLength: 1, maxLength: 191 }),
    attempt: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    progress: Type.Optional(
      Type.Object(
        {
          percent: Type.Optional(orNull(Type.Number())),
          note: Type.Optional(orNull(Type.String())),
          data: Type.Optional(Type.Unknown()),
        },
        strict,
      ),
    ),
    logs: Type.Optional(
      Type.Array(Type.Object({ text: Type.String(), level: Type.Optional(level) }, strict), {
        maxItems: 2_000,
      }),
    ),
  }),
  replies: { 200: object({ id: Type.String() }) },
  problems: ['lease_lost'],
}

export const logLineSchema: Schema<JobLogLine> = object({
  attempt: Type.Integer(),
  number: Type.Integer(),
  level,
  text: Type.String(),
  at: Type.Integer(instantOptions),
})

export const jobLogs: Route<{ params: IdParams; query: LogsOptions; reply: Page<JobLogLine> }> = {
  ...route('jobs', 'jobLogs', 'GET /v1/jobs/{id}/logs', 'read'),
  summary: 'List the log lines of a job, by attempt and number.',
  query: queryObject({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100 })),
    cursor: Type.Optional(Type.String({ pattern: '^\\d{1,9}-\\d{1,9}$' })),
  }),
  replies: {
    200: pageOf(logLineSchema),
  },
}

/** Routes of groups of errors. */

const groupFields = {
  fingerprint: Type.String(),
  kind: Type.String(),
  attemptCount: Type.Integer(),
  firstSeenAt: instant,
  lastSeenAt: instant,
  releases: Type.Array(Type.String()),
  sampleJobs: Type.Array(Type.String()),
  error: failure,
}

export const listErrorGroups: Route<{ query: ErrorGroupOptions; reply: ErrorGroupPage }> = {
  ...route('jobs', 'listErrorGroups', 'GET /v1/errors', 'read'),
  summary: 'List groups of errors of jobs, by their last error.',
  description:
    'Errors with the same cause have one `fingerprint`. It is made of the kind, the name of the error, its message ' +
    'without ids, numbers, dates and quoted values, and the first frame of the user’s code. `attemptCount` counts ' +
    'attempts that failed or were lost. With `counting`, some of the newest are not counted yet. The search ' +
    '`error.group:<fingerprint>` finds the jobs of a group.',
  query: queryObject({
    kind: Type.Optional(name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(Type.String({ pattern: '^\\d{1,15}-[0-9a-f]{16}$' })),
  }),
  replies: {
    200: object({
      items: Type.Array(Type.Object(groupFields)),
      cursor: orNull(Type.String()),
      counting: Type.Boolean(),
    }),
  },
}

export const getErrorGroup: Route<{ params: Pick<ErrorGroup, 'fingerprint'>; reply: ErrorGroup }> = {
  ...route('jobs', 'getErrorGroup', 'GET /v1/errors/{fingerprint}', 'read'),
  summary: 'Get a group of errors.',
  replies: { 200: object(groupFields) },
  problems: ['not_found'],
}
