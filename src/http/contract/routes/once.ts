import type { Duration } from '../../../core/duration.ts'
import type {
  ClaimAnswer,
  ClaimOptions,
  Guard,
  ListGuardsOptions,
  OnceStats,
  PlaceOptions,
  Renewed,
  SeenAnswer,
  SeenOptions,
  Settled,
  Sighting,
} from '../../../once/index.ts'
import { type Route, route } from '../route.ts'
import { exactly, object, oneOf, queryObject, type Schema, type Sent, strictObject, Type } from '../schema.ts'
import { count, instant, name, orNull, type Page, pageOf, pageQuery, span } from '../values.ts'

/** The routes of guards. Bodies are the library's arguments and options in one object. */

const token = Type.String({ minLength: 1, maxLength: 64 })
const mode = oneOf('at-least-once', 'at-most-once')
const space = oneOf('once', 'processing')
const degraded = { degraded: Type.Optional(Type.Literal(true)) }

export interface ClaimOnceBody extends Sent<ClaimOptions> {
  /** Either one `key`, or up to 1,000 `keys`. A `fingerprint` needs a single key. */
  readonly key?: string | undefined
  readonly keys?: readonly string[] | undefined
}

/** The answer for one key; for several keys, one answer each, in their order. */
type ClaimOnceReply = ClaimAnswer | { readonly items: readonly ClaimAnswer[] }

const claimAnswer = Type.Union([
  Type.Object({
    status: Type.Literal('run'),
    token: Type.String(),
    attempt: Type.Integer(),
    ...degraded,
  }),
  Type.Object({ status: Type.Literal('running'), retryInMs: Type.Integer({ minimum: 0 }), ...degraded }),
  Type.Object({ status: Type.Literal('done'), result: Type.Unknown(), ...degraded }),
  Type.Object({ status: Type.Literal('stuck'), ...degraded }),
])

export const claimOnce: Route<{ body: ClaimOnceBody; reply: ClaimOnceReply }> = {
  ...route('once', 'claimOnce', 'POST /v1/once/claim', 'work'),
  summary: 'Claim a key, or several. The caller that gets `run` does the work.',
  description:
    '`run`: do the work, then call done or fail with the token. `running`: another caller does it. `done`: it was ' +
    'done; here is the result. `stuck` (at-most-once): a caller began and never reported the end; an operator ' +
    'must check. `degraded`: the store did not answer, and the configured policy decided. Every status is 200. At ' +
    'most 1,000 keys; a `fingerprint` needs a single `key`.',
  body: strictObject({
    key: Type.Optional(name),
    // The service refuses too many keys, and names its limit.
    keys: Type.Optional(Type.Array(name)),
    leaseMs: Type.Optional(span),
    keepMs: Type.Optional(span),
    fingerprint: Type.Optional(name),
    mode: Type.Optional(mode),
    space: Type.Optional(space),
  }),
  replies: {
    200: exactly(Type.Union([claimAnswer, Type.Object({ items: Type.Array(claimAnswer) })])),
  },
  problems: ['fingerprint_mismatch', 'too_large'],
}

export interface ForgetOnceBody extends Sent<PlaceOptions> {
  readonly key: string
}

export interface GuardTokenBody extends ForgetOnceBody {
  readonly token: string
}

const tokenFields = { key: name, token, space: Type.Optional(space) }

export interface DoneOnceBody extends GuardTokenBody {
  readonly result?: unknown
}

export const doneOnce: Route<{ body: DoneOnceBody; reply: Settled<'done'> }> = {
  ...route('once', 'doneOnce', 'POST /v1/once/done', 'work'),
  relieves: true,
  summary: 'Mark a claimed key as done, with its result.',
  description: 'A token that does not hold the claim gets 409 `lease_lost`, and nothing changes.',
  body: strictObject({ ...tokenFields, result: Type.Optional(Type.Unknown()) }),
  replies: {
    200: object({ done: Type.Literal(true), ...degraded }),
  },
  problems: ['lease_lost'],
}

export const failOnce: Route<{ body: GuardTokenBody; reply: Settled<'failed'> }> = {
  ...route('once', 'failOnce', 'POST /v1/once/fail', 'work'),
  relieves: true,
  summary: 'Give a claimed key back: it may be claimed again at once.',
  body: strictObject(tokenFields),
  replies: {
    200: object({ failed: Type.Literal(true), ...degraded }),
  },
  problems: ['lease_lost'],
}

export interface RenewOnceBody extends GuardTokenBody {
  readonly leaseMs?: Duration | undefined
}

export const renewOnce: Route<{ body: RenewOnceBody; reply: Renewed }> = {
  ...route('once', 'renewOnce', 'POST /v1/once/renew', 'work'),
  relieves: true,
  summary: 'Extend a claim by `leaseMs`.',
  description: 'Never shortens a claim.',
  body: strictObject({ ...tokenFields, leaseMs: Type.Optional(span) }),
  replies: {
    200: object({ expiresAt: instant, ...degraded }),
  },
  problems: ['lease_lost'],
}

export const forgetOnce: Route<{ body: ForgetOnceBody; reply: { readonly forgotten: boolean } }> = {
  ...route('once', 'forgetOnce', 'POST /v1/once/forget', 'admin'),
  summary: 'For operators: forget a key in any state, so that it can be claimed again.',
  body: strictObject({ key: name, space: Type.Optional(space) }),
  replies: { 200: object({ forgotten: Type.Boolean() }) },
}

export interface SeenOnceBody extends Sighting, Sent<SeenOptions> {}

export const seenOnce: Route<{ body: SeenOnceBody; reply: SeenAnswer }> = {
  ...route('once', 'seenOnce', 'POST /v1/once/seen', 'work'),
  summary:
    'Ask whether a state of a subject was notified recently. `seen: false` starts the window: notify now.',
  description: 'Asking does not extend the window.',
  body: strictObject({
    subject: Type.Array(name, { minItems: 1, maxItems: 16 }),
    state: Type.Unknown(),
    from: Type.Optional(Type.Unknown()),
    windowMs: Type.Optional(span),
    by: Type.Optional(oneOf('state', 'last', 'transition')),
  }),
  replies: { 200: object({ seen: Type.Boolean(), ...degraded }) },
}

export const onceStats: Route<{ reply: OnceStats }> = {
  ...route('once', 'onceStats', 'GET /v1/once/stats', 'read'),
  summary: 'Counters of this server since its start: claims, refusals, events, suppressed repeats.',
  replies: {
    200: object({
      lock_acquired_count: count,
      lock_rejected_count: count,
      duplicate_events: count,
      unique_events: count,
      notification_dedup: count,
      degraded: count,
      answers: Type.Record(Type.String(), Type.Record(Type.String(), count)),
    }),
  },
}

const guard: Schema<Guard> = object({
  key: Type.String(),
  status: oneOf('running', 'done', 'failed', 'stuck'),
  mode,
  attempt: Type.Integer(),
  claimedAt: instant,
  endsAt: orNull(instant),
})

export const listGuards: Route<{ query: ListGuardsOptions; reply: Page<Guard> }> = {
  ...route('once', 'listGuards', 'GET /v1/once', 'read'),
  summary: 'List guards with their states. No tokens.',
  query: queryObject({
    search: Type.Optional(name),
    space: Type.Optional(space),
    ...pageQuery(8_192),
  }),
  replies: {
    200: pageOf(guard),
  },
}
