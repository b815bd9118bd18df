import type { Duration } from '../../../core/duration.ts'
import type { AttemptOutcome, JobState } from '../../../jobs/index.ts'
import { type IdParams, idParams } from '../page.ts'
import type { Route } from '../route.ts'
import { type Schema, schemaFor, strict, Type } from '../schema.ts'
import { type BackoffBody, backoffBody, instant, jobState, name, span } from '../values.ts'

/** What the holder of a job's token says of its attempt: done, failed, still at it. */

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
const settled: Schema<Settled> = schemaFor<Settled>()(Type.Object({ id: Type.String(), state: jobState }))
const ranMs = Type.Optional(Type.Integer({ minimum: 0, maximum: 31_557_600_000 }))

export const ackJob: Route<{ params: IdParams; body: AckBody; reply: Settled }> = {
  id: 'ackJob',
  method: 'POST',
  path: '/v1/jobs/{id}/ack',
  scope: 'work',
  relieves: true,
  module: 'jobs',
  summary: 'The job is done.',
  params: idParams,
  body: schemaFor<AckBody>()(Type.Object({ token, result: Type.Optional(Type.Unknown()), ranMs }, strict)),
  replies: { 200: settled },
  mutates: true,
  problems: ['lease_lost'],
}

export interface NackBody {
  readonly token: string
  /** Why: text, `{ name, message, code, stack }`, or any JSON value. An object is kept whole, as `error.details`. */
  readonly error?: unknown
  readonly retryInMs?: Duration
  /** The back-off after this failure; what is left out is as the job has it. Not with `retryInMs`. */
  readonly backoff?: BackoffBody
  readonly dead?: boolean
  /** Back in line at once without burning an attempt, as a stopping worker does; ten times a job, then it counts. */
  readonly handBack?: boolean
  /** Back in line after so long without burning an attempt, as often as you like. */
  readonly snoozeMs?: Duration
  readonly ranMs?: number
}

export const nackJob: Route<{ params: IdParams; body: NackBody; reply: Settled }> = {
  id: 'nackJob',
  method: 'POST',
  path: '/v1/jobs/{id}/nack',
  scope: 'work',
  relieves: true,
  module: 'jobs',
  summary: 'The job failed: back in line after its back-off, or dead.',
  description:
    '`error` may be any JSON value: an object is kept whole, as `error.details`. `retryInMs` sets the wait before the next attempt, ' +
    '`backoff` the back-off that it is computed from; give one of them. ' +
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
        backoff: Type.Optional(backoffBody),
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
  readonly leaseMs?: Duration
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
  relieves: true,
  module: 'jobs',
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
  relieves: true,
  module: 'jobs',
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
