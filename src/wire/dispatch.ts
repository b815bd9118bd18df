import type {
  Explanation,
  NodeView,
  PoolView,
  SubmitOptions,
  Submitted,
  Task,
  TaskEvent,
  Term,
} from '../dispatch/index.ts'
import type { Page } from './jobs.ts'
import { nodesPath } from './nodeframes.ts'
import { type IdParams, idParams, pageOf, pageQuery } from './page.ts'
import type { Route } from './route.ts'
import { instantOptions, nameOptions, type Schema, schemaFor, spanPattern, strict, Type } from './schema.ts'

/** The routes of dispatch: tasks for everybody, nodes and pools for operators. Nodes themselves come by WebSocket. */

const name = Type.String(nameOptions)
const text = Type.String()
const count = Type.Integer({ minimum: 0 })
const instant = Type.Integer(instantOptions)
const span = Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: spanPattern })])
const textOrNull = Type.Union([text, Type.Null()])
const numberOrNull = Type.Union([Type.Number(), Type.Null()])
const instantOrNull = Type.Union([instant, Type.Null()])
const spanOrNull = Type.Union([span, Type.Null()])
/** A service that a node must offer, with tags. */
export const serviceTermSchema: Schema = Type.Object(
  { service: name, where: Type.Optional(Type.Unsafe({ type: 'object', maxProperties: 16 })) },
  strict,
)
/** A label that a node must have. */
export const labelTermSchema: Schema = Type.Object(
  {
    label: name,
    in: Type.Optional(Type.Array(name, { maxItems: 64 })),
    gte: Type.Optional(Type.Number()),
    lte: Type.Optional(Type.Number()),
  },
  strict,
)
const plainTerms = [serviceTermSchema, labelTermSchema]
const anyOf = (inner: Schema) => Type.Object({ any: Type.Array(inner, { maxItems: 64 }) }, strict)
const notOf = (inner: Schema) => Type.Object({ not: inner }, strict)
const lastTerm = Type.Union(plainTerms)
const deepTerms = [anyOf(lastTerm), notOf(lastTerm)] as const
const deepTerm = Type.Union([...plainTerms, ...deepTerms])
const innerTerms = [anyOf(deepTerm), notOf(deepTerm)] as const
const innerTerm = Type.Union([...plainTerms, ...innerTerms])
const outerTerms = [anyOf(innerTerm), notOf(innerTerm)] as const
/** Terms hold terms, four levels deep at most. */
const term = Type.Unsafe<Term>(Type.Union([...plainTerms, ...outerTerms]))
/** Those that hold others, by the names they have in the description of the API. */
export const nestingTermSchemas: Readonly<Record<string, Schema>> = {
  AnyTerm: outerTerms[0],
  NotTerm: outerTerms[1],
  InnerAnyTerm: innerTerms[0],
  InnerNotTerm: innerTerms[1],
  DeepAnyTerm: deepTerms[0],
  DeepNotTerm: deepTerms[1],
}
/** Which names and numbers are allowed is judged by the room too. */
const uses = Type.Unsafe<Readonly<Record<string, number>>>({
  type: 'object',
  maxProperties: 16,
  description: 'Slots by service: `{ asr: 1, nmt: 2 }`.',
})
const terms = Type.Array(term, { maxItems: 32 })
const status = Type.Union([
  Type.Literal('waiting'),
  Type.Literal('assigned'),
  Type.Literal('running'),
  Type.Literal('completed'),
  Type.Literal('failed'),
  Type.Literal('cancelled'),
])
const taskError = Type.Object({ code: text, message: text })

export const taskSchema: Schema<Task> = schemaFor<Task>()(
  Type.Object({
    taskId: text,
    status,
    attempt: count,
    nodeId: textOrNull,
    service: text,
    output: Type.Unknown(),
    error: Type.Union([taskError, Type.Null()]),
    submittedAt: instant,
    finishedAt: instantOrNull,
  }),
)

/** What a task is submitted with; an Idempotency-Key counts where there is no `idempotencyKey`. */
export type SubmitTaskBody = SubmitOptions

const nullable = (schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]))
const submitBody: Schema<SubmitTaskBody> = Type.Object(
  {
    service: name,
    uses: Type.Optional(uses),
    requires: Type.Optional(terms),
    prefers: Type.Optional(terms),
    payload: Type.Optional(Type.Unknown()),
    priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 9, default: 5 })),
    tenant: Type.Optional(name),
    session: nullable(name),
    deadlineMs: nullable(span),
    idleMs: nullable(span),
    retryable: Type.Optional(Type.Boolean({ default: true })),
    idempotencyKey: nullable(name),
  },
  strict,
) as Schema<SubmitTaskBody>

const submitted: Schema<Submitted> = schemaFor<Submitted>()(
  Type.Object({ taskId: text, status, duplicate: Type.Boolean() }),
)

export const submitTask: Route<{ body: SubmitTaskBody; reply: Submitted }> = {
  id: 'submitTask',
  method: 'POST',
  path: '/v1/tasks',
  scope: 'work',
  room: 'dispatch',
  summary: 'Submit a task: it is kept durably, and goes to a node that offers what it needs.',
  description:
    '`uses` reserves slots of several services on one node at once; `requires` must all hold, `prefers` had better. It waits until ' +
    'there is room, by priority and fairly between tenants, at most until `deadlineMs`. It ends exactly once. A known ' +
    '`idempotencyKey` (kept for 24 hours) is 200 and the task that it made; an Idempotency-Key header is taken in its place.',
  body: submitBody,
  replies: { 200: submitted, 202: submitted },
  mutates: true,
  problems: ['too_large', 'too_many'],
}

export interface ListTasksQuery {
  readonly limit?: number
  readonly cursor?: string
}

export const listTasks: Route<{ query: ListTasksQuery; reply: Page<Task> }> = {
  id: 'listTasks',
  method: 'GET',
  path: '/v1/tasks',
  scope: 'read',
  room: 'dispatch',
  summary: 'List tasks, the newest first.',
  query: schemaFor<ListTasksQuery>()(Type.Object({ ...pageQuery(191) }, strict)),
  replies: { 200: pageOf(taskSchema) },
  mutates: false,
}

export const getTask: Route<{ params: IdParams; reply: Task }> = {
  id: 'getTask',
  method: 'GET',
  path: '/v1/tasks/{id}',
  scope: 'read',
  room: 'dispatch',
  summary: 'One task: how it stands, where it is, and what came of it.',
  params: idParams,
  replies: { 200: taskSchema },
  mutates: false,
  problems: ['not_found'],
}

/** What the stream of a task tells, by type. */
export type TaskEvents = {
  readonly [Event in TaskEvent as Event['status']]: Omit<Event, 'status'>
}

const ofTask = { taskId: text, attempt: count, at: instant }
const onNode = { ...ofTask, nodeId: textOrNull }

/** The data of each type of event. */
export const taskEventSchemas: { readonly [Name in keyof TaskEvents]: Schema<TaskEvents[Name]> } = {
  waiting: Type.Object(ofTask),
  assigned: Type.Object(onNode),
  running: Type.Object(onNode),
  progress: Type.Object({ ...onNode, percent: numberOrNull, note: textOrNull }),
  completed: Type.Object({ ...onNode, output: Type.Unknown() }),
  failed: Type.Object({ ...onNode, error: taskError }),
  cancelled: Type.Object({ ...onNode, error: taskError }),
}

export const taskEvents: Route<{ params: IdParams }> = {
  id: 'taskEvents',
  method: 'GET',
  path: '/v1/tasks/{id}/events',
  scope: 'read',
  room: 'dispatch',
  summary: 'A stream of what happens to a task, from how it stands now to its end.',
  description:
    'The present state comes first, also after a reconnect: there is nothing to resume. Progress that is not read in time is skipped. ' +
    'The stream ends after `completed`, `failed` or `cancelled`.',
  params: idParams,
  replies: { 200: schemaFor<unknown>()(Type.Unknown()) },
  replyType: 'events',
  mutates: false,
  problems: ['not_found', 'too_many'],
}

export interface CancelTaskBody {
  readonly reason?: string
}

export const cancelTask: Route<{ params: IdParams; body: CancelTaskBody; reply: Task }> = {
  id: 'cancelTask',
  method: 'POST',
  path: '/v1/tasks/{id}/cancel',
  scope: 'work',
  room: 'dispatch',
  summary: 'End a task unless it ended before; a node that runs it is told to stop.',
  params: idParams,
  body: schemaFor<CancelTaskBody>()(
    Type.Object({ reason: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 })) }, strict),
  ),
  bodyOptional: true,
  replies: { 200: taskSchema },
  mutates: true,
  problems: ['not_found'],
}

export const explainTask: Route<{ params: IdParams; reply: Explanation }> = {
  id: 'explainTask',
  method: 'GET',
  path: '/v1/tasks/{id}/explain',
  scope: 'read',
  room: 'dispatch',
  summary:
    'Why a task waits: how many nodes fail each requirement, the nearest misses, and what would wake it.',
  params: idParams,
  replies: {
    200: schemaFor<Explanation>()(
      Type.Object({
        taskId: text,
        nodeCount: count,
        suitableCount: count,
        readyCount: count,
        requirements: Type.Array(Type.Object({ requirement: text, failingCount: count })),
        nearest: Type.Array(Type.Object({ nodeId: text, missing: Type.Array(text) })),
        wakes: Type.Array(text),
      }),
    ),
  },
  mutates: false,
  problems: ['not_found'],
}

export const nodeSchema: Schema<NodeView> = schemaFor<NodeView>()(
  Type.Object({
    nodeId: text,
    instanceId: text,
    epoch: Type.Integer(),
    status: Type.Union([Type.Literal('ready'), Type.Literal('suspect'), Type.Literal('gone')]),
    via: textOrNull,
    draining: Type.Boolean(),
    cordoned: Type.Boolean(),
    overloaded: Type.Boolean(),
    heldFor: textOrNull,
    services: Type.Array(
      Type.Object({
        name: text,
        slots: count,
        tags: Type.Record(Type.String(), Type.Array(text)),
        used: count,
        cordoned: Type.Boolean(),
        restsUntil: numberOrNull,
      }),
    ),
    labels: Type.Record(Type.String(), Type.Union([text, Type.Number(), Type.Boolean()])),
    load: Type.Object({ cpu: numberOrNull, gpu: numberOrNull, memory: numberOrNull }),
    taskIds: Type.Array(text),
    seenAt: Type.Number(),
    joinedAt: Type.Number(),
  }),
)

/** What a node wants to know before it connects. */
export interface NodeInfo {
  /** The version of the frames that this server speaks. */
  readonly protocol: number
  readonly heartbeatMs: number
}

export const nodeInfo: Route<{ reply: NodeInfo }> = {
  id: 'nodeInfo',
  method: 'GET',
  path: nodesPath,
  scope: 'work',
  room: 'dispatch',
  summary: 'Where nodes connect by WebSocket; a request that is none is told what is spoken there.',
  description:
    'The token comes in the Authorization header, or, from a browser, as the subprotocol `signalbox.bearer.` and the token in base64url, beside ' +
    '`signalbox.v1`. Messages are JSON objects with a `type`; the first is `hello`.',
  replies: { 200: schemaFor<NodeInfo>()(Type.Object({ protocol: count, heartbeatMs: count })) },
  mutates: false,
}

export interface ListNodesQuery {
  /** This one alone. */
  readonly nodeId?: string
  /** Those that offer it. */
  readonly service?: string
  readonly limit?: number
  readonly cursor?: string
}

export const listNodes: Route<{ query: ListNodesQuery; reply: Page<NodeView> }> = {
  id: 'listNodes',
  method: 'GET',
  path: '/v1/nodes',
  scope: 'read',
  room: 'dispatch',
  summary: 'List nodes by id: what they offer, how loaded they are, what they run.',
  description:
    'As last published, at most a little old. `restsUntil`, `seenAt` and `joinedAt` are of the server’s own clock.',
  query: schemaFor<ListNodesQuery>()(
    Type.Object({ nodeId: Type.Optional(name), service: Type.Optional(name), ...pageQuery(2_048) }, strict),
  ),
  replies: { 200: pageOf(nodeSchema) },
  mutates: false,
}

export interface DrainNodeBody {
  /** False ends it. @default true */
  readonly on?: boolean
  /** What still runs then goes on elsewhere. @default none */
  readonly deadlineMs?: number | string | null
}

export const drainNode: Route<{ params: IdParams; body: DrainNodeBody; reply: NodeView }> = {
  id: 'drainNode',
  method: 'POST',
  path: '/v1/nodes/{id}/drain',
  scope: 'admin',
  room: 'dispatch',
  summary: 'For operators: no new work for a node; what it runs may end, by the deadline elsewhere.',
  params: idParams,
  body: schemaFor<DrainNodeBody>()(
    Type.Object({ on: Type.Optional(Type.Boolean()), deadlineMs: Type.Optional(spanOrNull) }, strict),
  ),
  bodyOptional: true,
  replies: { 200: nodeSchema },
  mutates: true,
  problems: ['not_found'],
}

export interface CordonNodeBody {
  /** One service alone. @default the whole node */
  readonly service?: string | null
  /** False opens it again. @default true */
  readonly on?: boolean
}

export const cordonNode: Route<{
  params: IdParams
  body: CordonNodeBody
  reply: { readonly cordoned: boolean }
}> = {
  id: 'cordonNode',
  method: 'POST',
  path: '/v1/nodes/{id}/cordon',
  scope: 'admin',
  room: 'dispatch',
  summary: 'For operators: close a node, or one service of it, for new work, or open it again.',
  description: 'Counts on every server that shares the store, until it is lifted.',
  params: idParams,
  body: schemaFor<CordonNodeBody>()(
    Type.Object(
      { service: Type.Optional(Type.Union([name, Type.Null()])), on: Type.Optional(Type.Boolean()) },
      strict,
    ),
  ),
  bodyOptional: true,
  replies: {
    200: schemaFor<{ readonly cordoned: boolean }>()(Type.Object({ cordoned: Type.Boolean() })),
  },
  mutates: true,
  problems: ['not_found'],
}

const pool: Schema<PoolView> = schemaFor<PoolView>()(
  Type.Object({ name: textOrNull, signature: textOrNull, requires: Type.Array(term), nodeCount: count }),
)

export const listPools: Route<{ reply: Page<PoolView> }> = {
  id: 'listPools',
  method: 'GET',
  path: '/v1/pools',
  scope: 'read',
  room: 'dispatch',
  summary: 'List pools: those by what nodes offer, which make themselves, and those defined by a rule.',
  replies: { 200: pageOf(pool) },
  mutates: false,
}

export interface DefinePoolBody {
  readonly name: string
  readonly requires: readonly Term[]
}

export const definePool: Route<{ body: DefinePoolBody; reply: DefinePoolBody }> = {
  id: 'definePool',
  method: 'POST',
  path: '/v1/pools',
  scope: 'admin',
  room: 'dispatch',
  summary: 'For operators: define a pool by a rule, or change its rule.',
  description:
    'Tasks ask for it with `{ label: "pool", in: [name] }`. Counts on every server that shares the store, and stays until it is removed.',
  body: schemaFor<DefinePoolBody>()(Type.Object({ name, requires: terms }, strict)),
  replies: {
    201: schemaFor<DefinePoolBody>()(Type.Object({ name: text, requires: Type.Array(term) })),
  },
  mutates: true,
}
