import type { Duration } from '../../../core/duration.ts'
import type { ClaimAnswer, Guard, OnceSpace, OnceStats, SeenAnswer } from '../../../once/index.ts'
import { type Page, pageQuery } from '../page.ts'
import type { Route } from '../route.ts'
import { schemaFor, strict, Type } from '../schema.ts'
import { count, instant, name, span } from '../values.ts'

/** The routes of guards. Bodies are the library's arguments and options in one object. */

const token = Type.String({ minLength: 1, maxLength: 64 })
const mode = Type.Union([Type.Literal('at-least-once'), Type.Literal('at-most-once')])
const space = Type.Union([Type.Literal('once'), Type.Literal('processing')])
const degraded = { degraded: Type.Optional(Type.Literal(true)) }

export interface ClaimOnceBody {
  /** Either one `key`, or up to 1,000 `keys`. */
  readonly key?: string
  readonly keys?: readonly string[]
  readonly leaseMs?: Duration
  readonly keepMs?: Duration
  /** With one `key` alone. */
  readonly fingerprint?: string
  readonly mode?: 'at-least-once' | 'at-most-once'
  /** @default 'once' */
  readonly space?: OnceSpace
}

/** One answer for one key; for many, one each in their order. */
export type ClaimOnceReply = ClaimAnswer | { readonly items: readonly ClaimAnswer[] }

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
  id: 'claimOnce',
  method: 'POST',
  path: '/v1/once/claim',
  scope: 'work',
  module: 'once',
  summary: 'Claim a key, or many: whoever gets `run` does the work, everybody else learns how it stands.',
  description:
    '`run`: do it, then say done or fail with the token. `running`: somebody is at it. `done`: it was done, with its result. ' +
    '`stuck` (at-most-once): whoever was at it never said how it ended, and an operator must look. `degraded`: the store did not answer ' +
    `and the declared policy spoke in its place. Every status is 200. At most 1,000 keys; a \`fingerprint\` is for one \`key\`.`,
  body: schemaFor<ClaimOnceBody>()(
    Type.Object(
      {
        key: Type.Optional(name),
        // Of too many the service says how many it takes.
        keys: Type.Optional(Type.Array(name)),
        leaseMs: Type.Optional(span),
        keepMs: Type.Optional(span),
        fingerprint: Type.Optional(name),
        mode: Type.Optional(mode),
        space: Type.Optional(space),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<ClaimOnceReply>()(
      Type.Union([claimAnswer, Type.Object({ items: Type.Array(claimAnswer) })]),
    ),
  },
  mutates: true,
  problems: ['fingerprint_mismatch', 'too_large'],
}

export interface GuardTokenBody {
  readonly key: string
  readonly token: string
  readonly space?: OnceSpace
}

const tokenFields = { key: name, token, space: Type.Optional(space) }

export interface DoneOnceBody extends GuardTokenBody {
  readonly result?: unknown
}

/** What ends a claim is answered with; `degraded`: the store never knew of the claim. */
interface Ended {
  readonly degraded?: true
}

export const doneOnce: Route<{ body: DoneOnceBody; reply: Ended & { readonly done: true } }> = {
  id: 'doneOnce',
  method: 'POST',
  path: '/v1/once/done',
  scope: 'work',
  relieves: true,
  module: 'once',
  summary: 'It was done: whoever claims the key now gets `done` and the result.',
  description: `A token that is not (or no longer) the claim’s is 409 \`lease_lost\`, and nothing changes.`,
  body: schemaFor<DoneOnceBody>()(
    Type.Object({ ...tokenFields, result: Type.Optional(Type.Unknown()) }, strict),
  ),
  replies: {
    200: schemaFor<Ended & { readonly done: true }>()(Type.Object({ done: Type.Literal(true), ...degraded })),
  },
  mutates: true,
  problems: ['lease_lost'],
}

export const failOnce: Route<{ body: GuardTokenBody; reply: Ended & { readonly failed: true } }> = {
  id: 'failOnce',
  method: 'POST',
  path: '/v1/once/fail',
  scope: 'work',
  relieves: true,
  module: 'once',
  summary: 'It was not done: the key may be claimed again at once.',
  body: schemaFor<GuardTokenBody>()(Type.Object(tokenFields, strict)),
  replies: {
    200: schemaFor<Ended & { readonly failed: true }>()(
      Type.Object({ failed: Type.Literal(true), ...degraded }),
    ),
  },
  mutates: true,
  problems: ['lease_lost'],
}

export interface RenewOnceBody extends GuardTokenBody {
  readonly leaseMs?: Duration
}

export const renewOnce: Route<{ body: RenewOnceBody; reply: Ended & { readonly expiresAt: number } }> = {
  id: 'renewOnce',
  method: 'POST',
  path: '/v1/once/renew',
  scope: 'work',
  relieves: true,
  module: 'once',
  summary: 'Keep a claim for another `leaseMs`.',
  description: `Never shortens it.`,
  body: schemaFor<RenewOnceBody>()(Type.Object({ ...tokenFields, leaseMs: Type.Optional(span) }, strict)),
  replies: {
    200: schemaFor<Ended & { readonly expiresAt: number }>()(
      Type.Object({ expiresAt: instant, ...degraded }),
    ),
  },
  mutates: true,
  problems: ['lease_lost'],
}

export interface ForgetOnceBody {
  readonly key: string
  readonly space?: OnceSpace
}

export const forgetOnce: Route<{ body: ForgetOnceBody; reply: { readonly forgotten: boolean } }> = {
  id: 'forgetOnce',
  method: 'POST',
  path: '/v1/once/forget',
  scope: 'admin',
  module: 'once',
  summary: 'For operators: forget a key, whatever it is, so that it may be claimed again.',
  body: schemaFor<ForgetOnceBody>()(Type.Object({ key: name, space: Type.Optional(space) }, strict)),
  replies: { 200: schemaFor<{ readonly forgotten: boolean }>()(Type.Object({ forgotten: Type.Boolean() })) },
  mutates: true,
}

export interface SeenOnceBody {
  readonly subject: readonly string[]
  readonly state: unknown
  /** The state before; needed with `by: 'transition'`. */
  readonly from?: unknown
  readonly windowMs?: Duration
  readonly by?: 'state' | 'last' | 'transition'
}

export const seenOnce: Route<{ body: SeenOnceBody; reply: SeenAnswer }> = {
  id: 'seenOnce',
  method: 'POST',
  path: '/v1/once/seen',
  scope: 'work',
  module: 'once',
  summary:
    'Was this state of this subject notified recently? `seen: false` means: notify it, and the window begins.',
  description: `The window is not prolonged by those who ask while it is open.`,
  body: schemaFor<SeenOnceBody>()(
    Type.Object(
      {
        subject: Type.Array(name, { minItems: 1, maxItems: 16 }),
        state: Type.Unknown(),
        from: Type.Optional(Type.Unknown()),
        windowMs: Type.Optional(span),
        by: Type.Optional(
          Type.Union([Type.Literal('state'), Type.Literal('last'), Type.Literal('transition')]),
        ),
      },
      strict,
    ),
  ),
  replies: { 200: schemaFor<SeenAnswer>()(Type.Object({ seen: Type.Boolean(), ...degraded })) },
  mutates: true,
}

export const onceStats: Route<{ reply: OnceStats }> = {
  id: 'onceStats',
  method: 'GET',
  path: '/v1/once/stats',
  scope: 'read',
  module: 'once',
  summary:
    'What this server counted since it started: locks taken and refused, events new and known, repeats not notified.',
  replies: {
    200: schemaFor<OnceStats>()(
      Type.Object({
        lock_acquired_count: count,
        lock_rejected_count: count,
        duplicate_events: count,
        unique_events: count,
        notification_dedup: count,
        degraded: count,
        answers: Type.Record(Type.String(), Type.Record(Type.String(), count)),
      }),
    ),
  },
  mutates: false,
}

export interface ListGuardsQuery {
  readonly search?: string
  readonly space?: OnceSpace
  readonly limit?: number
  readonly cursor?: string
}

const guard = Type.Object({
  key: Type.String(),
  status: Type.Union([
    Type.Literal('running'),
    Type.Literal('done'),
    Type.Literal('failed'),
    Type.Literal('stuck'),
  ]),
  mode,
  attempt: Type.Integer(),
  claimedAt: instant,
  endsAt: Type.Union([instant, Type.Null()]),
})

export const listGuards: Route<{ query: ListGuardsQuery; reply: Page<Guard> }> = {
  id: 'listGuards',
  method: 'GET',
  path: '/v1/once',
  scope: 'read',
  module: 'once',
  summary: 'List guards: who is at what, what was done, what is stuck. No tokens.',
  query: schemaFor<ListGuardsQuery>()(
    Type.Object(
      {
        search: Type.Optional(name),
        space: Type.Optional(space),
        ...pageQuery(8_192),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<Page<Guard>>()(
      Type.Object({
        items: Type.Array(guard),
        cursor: Type.Union([Type.String(), Type.Null()]),
      }),
    ),
  },
  mutates: false,
}
