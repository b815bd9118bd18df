import type {
  AcquireAnswer,
  AcquireOptions,
  ListLocksOptions,
  LockEvent,
  LockKey,
  LockQueue,
  LockRequest,
  LockSummary,
  Locks,
  ReleaseOptions,
  RenewOptions,
  WatchOptions,
} from '../../../locks/index.ts'
import { type Route, route, type StreamEvents, streamOf } from '../route.ts'
import {
  exactly,
  nameOptions,
  object,
  oneOf,
  queryObject,
  type Schema,
  type Sent,
  strictObject,
  Type,
} from '../schema.ts'
import { failure, instant, name, nothing, orNull, type Page, pageOf, pageQuery, span } from '../values.ts'

/** The routes of locks. Bodies are the library's options. */

const resource = Type.String({ ...nameOptions, maxLength: 1_024 })
const token = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
const want = oneOf('result', 'turn')
const outcome = oneOf('success', 'failure')
const position = Type.Integer({ minimum: 1 })

const holder = Type.Object({
  node: Type.String(),
  requestId: Type.String(),
  attempt: Type.Integer(),
  since: instant,
  expiresAt: instant,
  progress: Type.Unknown(),
})
const holderOrNull = orNull(holder)
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
  lastOutcome: orNull(lastOutcome),
}

/** A wait queue: the holder, the waiters, and the last outcome. */
const lockQueueSchema: Schema<LockQueue> = object(queueFields)

const requestFields = {
  operation: name,
  resource,
  node: name,
  requestId: Type.Optional(name),
}

const granted = Type.Object({
  status: Type.Literal('granted'),
  token,
  expiresAt: instant,
  attempt: Type.Integer(),
})
const completed = Type.Object({ status: Type.Literal('completed'), result: Type.Unknown() })
const failed = Type.Object({ status: Type.Literal('failed'), error: failure })

type Answer<Verb extends 'release' | 'renew' | 'leave' | 'evict'> = Awaited<ReturnType<Locks[Verb]>>
type Answered<Status extends AcquireAnswer['status']> = Extract<AcquireAnswer, { status: Status }>

const acquired: Schema<Answered<'granted' | 'completed' | 'failed'>> = exactly(
  Type.Union([granted, completed, failed]),
)
const queued: Schema<Answered<'queued'>> = object({ status: Type.Literal('queued'), position })
const refused: Schema<Answered<'refused'>> = object({ status: Type.Literal('refused'), holder: holderOrNull })

export const acquireLock: Route<{ body: AcquireOptions; reply: AcquireAnswer }> = {
  ...route('locks', 'acquireLock', 'POST /v1/locks/acquire', 'work'),
  summary: 'Acquire a lock, or ask how an earlier request stands.',
  description:
    '200 `granted`: the `token` is the fencing token, and the lease lasts until `expiresAt`. 202 `queued`: a ' +
    'position in the wait queue, kept by asking again or by an open stream. 409 `refused` (with `wait: false`): ' +
    'the lock is busy; this is a result, not a problem. 200 `completed` or `failed`: the outcome of the holder ' +
    'that you waited for.',
  body: strictObject({
    ...requestFields,
    wait: Type.Optional(Type.Boolean()),
    want: Type.Optional(want),
    ttlMs: Type.Optional(span),
    deadlineMs: Type.Optional(orNull(span)),
  }),
  replies: {
    200: acquired,
    202: queued,
    409: refused,
  },
  problems: ['too_many'],
}

export const releaseLock: Route<{ body: ReleaseOptions; reply: Answer<'release'> }> = {
  ...route('locks', 'releaseLock', 'POST /v1/locks/release', 'work'),
  relieves: true,
  summary: 'Release a lock with its outcome.',
  description:
    '`success`: waiters that want the result get `completed` with `result`, and the first waiter that wants a ' +
    'turn is granted. `failure`: the next waiter is granted; with `terminal`, all waiters get `failed`. `next` is ' +
    'the node that holds the lock now.',
  body: strictObject({
    ...requestFields,
    token,
    outcome,
    result: Type.Optional(Type.Unknown()),
    error: Type.Optional(Type.Unknown()),
    terminal: Type.Optional(Type.Boolean()),
  }),
  replies: {
    200: object({ next: orNull(Type.String()) }),
  },
  problems: ['lease_lost'],
}

export const renewLock: Route<{ body: RenewOptions; reply: Answer<'renew'> }> = {
  ...route('locks', 'renewLock', 'POST /v1/locks/renew', 'work'),
  relieves: true,
  summary: 'Extend the lease of a lock by `ttlMs` (default: as before), and publish progress to waiters.',
  description: 'Never shortens a lease.',
  body: strictObject({
    ...requestFields,
    token,
    ttlMs: Type.Optional(span),
    progress: Type.Optional(Type.Unknown()),
  }),
  replies: { 200: object({ expiresAt: instant }) },
  problems: ['lease_lost'],
}

const requestBody: Schema<LockRequest> = strictObject(requestFields)

export const leaveLock: Route<{ body: LockRequest; reply: Answer<'leave'> }> = {
  ...route('locks', 'leaveLock', 'POST /v1/locks/leave', 'work'),
  relieves: true,
  summary: 'Leave the wait queue, or decline a grant.',
  description: 'A turn that has begun is ended by release: 409 `conflict`.',
  body: requestBody,
  replies: { 200: object({ left: Type.Boolean() }) },
  problems: ['conflict'],
}

export const evictLock: Route<{ body: LockRequest; reply: Answer<'evict'> }> = {
  ...route('locks', 'evictLock', 'POST /v1/locks/evict', 'admin'),
  summary: 'For operators: remove a holder or a waiter.',
  description: 'The turn of a holder ends as a failure, and the next waiter is granted.',
  body: requestBody,
  replies: { 200: object({ evicted: Type.Literal(true) }) },
  problems: ['not_found'],
}

export const listLocks: Route<{ query: ListLocksOptions; reply: Page<LockSummary> }> = {
  ...route('locks', 'listLocks', 'GET /v1/locks', 'read'),
  summary: 'List locks that are held or waited for.',
  query: queryObject({
    operation: Type.Optional(name),
    search: Type.Optional(name),
    ...pageQuery(8_192),
  }),
  replies: {
    200: pageOf(
      object({
        operation: Type.String(),
        resource: Type.String(),
        holder: holderOrNull,
        waiterCount: Type.Integer(),
      }),
    ),
  },
}

export const lockState: Route<{ query: LockKey; reply: LockQueue }> = {
  ...route('locks', 'lockState', 'GET /v1/locks/state', 'read'),
  summary: 'Get one wait queue: the holder, the waiters in order, and the last outcome. No tokens.',
  query: strictObject({ operation: name, resource }),
  replies: { 200: lockQueueSchema },
}

/** The events of a wait queue, by type. */
type LockEvents = {
  readonly [Type in LockEvent['type']]: Omit<Extract<LockEvent, { type: Type }>, 'id' | 'type'>
}

const lockEventParts: StreamEvents<LockEvents> = {
  reset: {
    description:
      'The wait queue as it is: the first event for an observer, and after a Last-Event-ID that the server does not know.',
    data: lockQueueSchema,
  },
  queued: {
    description:
      'Your position in the wait queue; 1 is next. A stream without `node` gets the number of waiters.',
    data: object({ position: Type.Integer() }),
  },
  granted: {
    description: 'A node got the lock. Only the stream of that node has the token.',
    data: object({
      node: Type.String(),
      attempt: Type.Integer(),
      expiresAt: instant,
      token: Type.Optional(token),
    }),
  },
  progress: {
    description: 'What the holder says of its work.',
    data: object({ node: Type.String(), progress: Type.Unknown() }),
  },
  completed: {
    description: 'The holder succeeded. The last event for a waiter that wants the result.',
    data: object({ result: Type.Unknown() }),
  },
  failed: {
    description:
      'The holder failed for good: the last event for a waiter. A stream without `node` gets each failed turn.',
    data: object({ error: failure }),
  },
  timeout: { description: 'The deadline passed before the lock was granted.', data: nothing },
  evicted: { description: 'An operator removed this request.', data: nothing },
  lost: { description: 'This request does not wait, or no longer waits.', data: nothing },
}

/** Without a `node` it only watches. */
export type LockEventsQuery = Omit<Sent<WatchOptions>, 'lastEventId'>

export const lockEvents: Route<{ query: LockEventsQuery }> = {
  ...route('locks', 'lockEvents', 'GET /v1/locks/events', 'read'),
  summary: 'Stream the events of a wait queue: of `node`, or of all.',
  description:
    'With a `node`, the stream reports the standing of its request, keeps its position while it is open, needs ' +
    'the scope `work`, and ends after the last event: `completed`, `failed`, `timeout`, `evicted` or `lost`. With ' +
    '`bind`, the lease is shortened to 2 seconds when the stream ends while the node holds the lock. Without a ' +
    '`node`, the stream only watches. The current state comes first. A Last-Event-ID that is not the id of an ' +
    'event is refused with 400.',
  query: strictObject({
    operation: name,
    resource,
    node: Type.Optional(name),
    requestId: Type.Optional(name),
    bind: Type.Optional(Type.Boolean()),
  }),
  ...streamOf(lockEventParts),
  problems: ['too_many'],
}
