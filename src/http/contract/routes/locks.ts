import type { Duration } from '../../../core/duration.ts'
import type { AcquireAnswer, LockEvent, LockQueue, LockSummary } from '../../../locks/index.ts'
import { type Page, pageQuery } from '../page.ts'
import type { Route } from '../route.ts'
import { nameOptions, type Schema, schemaFor, strict, Type } from '../schema.ts'
import { failure, instant, name, span } from '../values.ts'

/** The routes of locks. Bodies are the library's options. */

const resource = Type.String({ ...nameOptions, maxLength: 1_024 })
const token = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const want = Type.Union([Type.Literal('result'), Type.Literal('turn')])
const outcome = Type.Union([Type.Literal('success'), Type.Literal('failure')])
const position = Type.Integer({ minimum: 1 })

const holder = Type.Object({
  node: Type.String(),
  requestId: Type.String(),
  attempt: Type.Integer(),
  since: instant,
  expiresAt: instant,
  progress: Type.Unknown(),
})
const holderOrNull = Type.Union([holder, Type.Null()])
const waiter = Type.Object({
  node: Type.String(),
  requestId: Type.String(),
  position,
  since: instant,
  want,
})
const lastOutcome = Type.Object({
  outcome,
  node: Type.String(),
  attempt: Type.Integer(),
  at: instant,
  result: Type.Optional(Type.Unknown()),
  error: Type.Optional(failure),
})
const queueFields = {
  operation: Type.String(),
  resource: Type.String(),
  holder: holderOrNull,
  waiters: Type.Array(waiter),
  waiterCount: Type.Integer(),
  lastOutcome: Type.Union([lastOutcome, Type.Null()]),
}

/** A queue: who holds the lock, who waits for it, how its last turn ended. */
export const lockQueueSchema: Schema<LockQueue> = schemaFor<LockQueue>()(Type.Object(queueFields))

const requestFields = {
  operation: name,
  resource,
  node: name,
  requestId: Type.Optional(name),
}

/** Who asks, and for what. */
export interface LockRequestBody {
  readonly operation: string
  readonly resource: string
  readonly node: string
  /** @default the node's name */
  readonly requestId?: string
}

export interface AcquireBody extends LockRequestBody {
  readonly wait?: boolean
  readonly want?: 'result' | 'turn'
  readonly ttlMs?: Duration
  readonly deadlineMs?: Duration | null
}

const granted = Type.Object({
  status: Type.Literal('granted'),
  token,
  expiresAt: instant,
  attempt: Type.Integer(),
})
const completed = Type.Object({ status: Type.Literal('completed'), result: Type.Unknown() })
const failed = Type.Object({ status: Type.Literal('failed'), error: failure })
const queued = Type.Object({ status: Type.Literal('queued'), position })
const refused = Type.Object({ status: Type.Literal('refused'), holder: holderOrNull })

type Answered<Status extends AcquireAnswer['status']> = Extract<AcquireAnswer, { status: Status }>

export const acquireLock: Route<{ body: AcquireBody; reply: AcquireAnswer }> = {
  id: 'acquireLock',
  method: 'POST',
  path: '/v1/locks/acquire',
  scope: 'work',
  module: 'locks',
  summary: 'Ask for a lock, or how it stands with an earlier ask.',
  description:
    '200 `granted`: the `token` is the fence, and the lease lasts until `expiresAt`. 202 `queued`: a position in the wait queue, kept by asking ' +
    'again or by an open stream. 409 `refused` (with `wait: false`): it is busy, which is an answer and not a problem. ' +
    `200 \`completed\` or \`failed\`: how the wait queue ended that you waited in.`,
  body: schemaFor<AcquireBody>()(
    Type.Object(
      {
        ...requestFields,
        wait: Type.Optional(Type.Boolean()),
        want: Type.Optional(want),
        ttlMs: Type.Optional(span),
        deadlineMs: Type.Optional(Type.Union([span, Type.Null()])),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<Answered<'granted' | 'completed' | 'failed'>>()(Type.Union([granted, completed, failed])),
    202: schemaFor<Answered<'queued'>>()(queued),
    409: schemaFor<Answered<'refused'>>()(refused),
  },
  mutates: true,
  problems: ['too_many'],
}

export interface ReleaseBody extends LockRequestBody {
  readonly token: number
  readonly outcome: 'success' | 'failure'
  readonly result?: unknown
  readonly error?: unknown
  readonly terminal?: boolean
}
/** Whose turn it is now; null when nobody waits. */
export interface Released {
  readonly next: string | null
}

export const releaseLock: Route<{ body: ReleaseBody; reply: Released }> = {
  id: 'releaseLock',
  method: 'POST',
  path: '/v1/locks/release',
  scope: 'work',
  relieves: true,
  module: 'locks',
  summary: 'End a turn with its outcome.',
  description:
    '`success`: everybody who waits for the result is told `completed` with `result`, and the first who wants a turn is granted. ' +
    '`failure`: the next waiter is granted; with `terminal` everybody is told `failed` instead. `next` is the node whose turn it is now.',
  body: schemaFor<ReleaseBody>()(
    Type.Object(
      {
        ...requestFields,
        token,
        outcome,
        result: Type.Optional(Type.Unknown()),
        error: Type.Optional(Type.Unknown()),
        terminal: Type.Optional(Type.Boolean()),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<Released>()(Type.Object({ next: Type.Union([Type.String(), Type.Null()]) })),
  },
  mutates: true,
  problems: ['lease_lost'],
}

export interface RenewLockBody extends LockRequestBody {
  readonly token: number
  readonly ttlMs?: Duration
  readonly progress?: unknown
}
export interface RenewedLock {
  readonly expiresAt: number
}

export const renewLock: Route<{ body: RenewLockBody; reply: RenewedLock }> = {
  id: 'renewLock',
  method: 'POST',
  path: '/v1/locks/renew',
  scope: 'work',
  relieves: true,
  module: 'locks',
  summary:
    'Keep the lock for another `ttlMs` (the last one when none is given), and show the progress of the work to those who wait.',
  description: `Never shortens a lease.`,
  body: schemaFor<RenewLockBody>()(
    Type.Object(
      {
        ...requestFields,
        token,
        ttlMs: Type.Optional(span),
        progress: Type.Optional(Type.Unknown()),
      },
      strict,
    ),
  ),
  replies: { 200: schemaFor<RenewedLock>()(Type.Object({ expiresAt: instant })) },
  mutates: true,
  problems: ['lease_lost'],
}

const requestBody: Schema<LockRequestBody> = schemaFor<LockRequestBody>()(Type.Object(requestFields, strict))

export const leaveLock: Route<{ body: LockRequestBody; reply: { readonly left: boolean } }> = {
  id: 'leaveLock',
  method: 'POST',
  path: '/v1/locks/leave',
  scope: 'work',
  relieves: true,
  module: 'locks',
  summary: 'Leave the wait queue, or decline a grant that was not taken up yet.',
  description: `A turn that has begun is ended by release: 409 \`conflict\`.`,
  body: requestBody,
  replies: { 200: schemaFor<{ readonly left: boolean }>()(Type.Object({ left: Type.Boolean() })) },
  mutates: true,
  problems: ['conflict'],
}

export const evictLock: Route<{ body: LockRequestBody; reply: { readonly evicted: true } }> = {
  id: 'evictLock',
  method: 'POST',
  path: '/v1/locks/evict',
  scope: 'admin',
  module: 'locks',
  summary: 'For operators: remove a holder or a waiter.',
  description: `A holder’s turn ends as a failure, and the next waiter is granted.`,
  body: requestBody,
  replies: { 200: schemaFor<{ readonly evicted: true }>()(Type.Object({ evicted: Type.Literal(true) })) },
  mutates: true,
  problems: ['not_found'],
}

export interface ListLocksQuery {
  readonly operation?: string
  readonly search?: string
  readonly limit?: number
  readonly cursor?: string
}

export const listLocks: Route<{ query: ListLocksQuery; reply: Page<LockSummary> }> = {
  id: 'listLocks',
  method: 'GET',
  path: '/v1/locks',
  scope: 'read',
  module: 'locks',
  summary: 'List the wait queues that are held or waited for.',
  query: schemaFor<ListLocksQuery>()(
    Type.Object(
      {
        operation: Type.Optional(name),
        search: Type.Optional(name),
        ...pageQuery(8_192),
      },
      strict,
    ),
  ),
  replies: {
    200: schemaFor<Page<LockSummary>>()(
      Type.Object({
        items: Type.Array(
          Type.Object({
            operation: Type.String(),
            resource: Type.String(),
            holder: holderOrNull,
            waiterCount: Type.Integer(),
          }),
        ),
        cursor: Type.Union([Type.String(), Type.Null()]),
      }),
    ),
  },
  mutates: false,
}

export interface LockKeyQuery {
  readonly operation: string
  readonly resource: string
}

export const lockState: Route<{ query: LockKeyQuery; reply: LockQueue }> = {
  id: 'lockState',
  method: 'GET',
  path: '/v1/locks/state',
  scope: 'read',
  module: 'locks',
  summary: 'Look at one queue: who holds it, who waits in which order, how the last turn ended. No tokens.',
  query: schemaFor<LockKeyQuery>()(Type.Object({ operation: name, resource }, strict)),
  replies: { 200: lockQueueSchema },
  mutates: false,
}

export interface LockEventsQuery extends LockKeyQuery {
  readonly node?: string
  readonly requestId?: string
  readonly bind?: boolean
}

/** What a stream of a wait queue tells, by type. */
export type LockEvents = {
  readonly [Type in LockEvent['type']]: Omit<Extract<LockEvent, { type: Type }>, 'id' | 'type'>
}

export const lockEvents: Route<{ query: LockEventsQuery }> = {
  id: 'lockEvents',
  method: 'GET',
  path: '/v1/locks/events',
  scope: 'read',
  module: 'locks',
  summary: 'A stream of what happens in a queue: to `node`, where one is named, else to all.',
  description:
    'With a `node` it tells that request’s own standing, keeps its position in the wait queue while it is open, needs the scope `work`, and ends ' +
    'after the last event: `completed`, `failed`, `timeout`, `evicted`, `lost`. `bind` (with a `node`): when the stream ends while the ' +
    'node holds the lock, the lease is shortened to 2 seconds. Without a node it only looks on. The present state comes first. ' +
    'A Last-Event-ID that is no event’s id is refused with 400.',
  query: schemaFor<LockEventsQuery>()(
    Type.Object(
      {
        operation: name,
        resource,
        node: Type.Optional(name),
        requestId: Type.Optional(name),
        bind: Type.Optional(Type.Boolean()),
      },
      strict,
    ),
  ),
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  replyType: 'events',
  mutates: false,
  problems: ['too_many'],
}

/** The data of each type of event. */
export const lockEventSchemas: { readonly [Name in keyof LockEvents]: Schema<LockEvents[Name]> } = {
  reset: lockQueueSchema,
  queued: schemaFor<LockEvents['queued']>()(Type.Object({ position: Type.Integer() })),
  granted: schemaFor<LockEvents['granted']>()(
    Type.Object({
      node: Type.String(),
      attempt: Type.Integer(),
      expiresAt: instant,
      token: Type.Optional(token),
    }),
  ),
  progress: schemaFor<LockEvents['progress']>()(
    Type.Object({ node: Type.String(), progress: Type.Unknown() }),
  ),
  completed: schemaFor<LockEvents['completed']>()(Type.Object({ result: Type.Unknown() })),
  failed: schemaFor<LockEvents['failed']>()(Type.Object({ error: failure })),
  timeout: nothing(),
  evicted: nothing(),
  lost: nothing(),
}

function nothing(): Schema<LockEvents['timeout']> {
  return Type.Unsafe<LockEvents['timeout']>({ type: 'object', maxProperties: 0 })
}
