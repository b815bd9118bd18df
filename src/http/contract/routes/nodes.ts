import type { Duration } from '../../../core/duration.ts'
import type { NodeView, PoolView, Term } from '../../../dispatch/index.ts'
import { nodesPath } from '../node-frames.ts'
import { type IdParams, idParams, type Page, pageOf, pageQuery } from '../page.ts'
import type { Route } from '../route.ts'
import { type Schema, schemaFor, strict, Type } from '../schema.ts'
import { term, terms } from '../terms.ts'
import { count, name, orNull, span } from '../values.ts'

/** Nodes and pools, for operators. Nodes themselves come by WebSocket. */

const text = Type.String()
const textOrNull = orNull(text)
const numberOrNull = orNull(Type.Number())
const spanOrNull = orNull(span)

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
  forNodes: true,
  module: 'dispatch',
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
  module: 'dispatch',
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
  readonly deadlineMs?: Duration | null
}

export const drainNode: Route<{ params: IdParams; body: DrainNodeBody; reply: NodeView }> = {
  id: 'drainNode',
  method: 'POST',
  path: '/v1/nodes/{id}/drain',
  scope: 'admin',
  module: 'dispatch',
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
  module: 'dispatch',
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
  module: 'dispatch',
  summary: 'List pools: those by what nodes offer, which make themselves, and those defined by a rule.',
  replies: { 200: pageOf(pool) },
  mutates: false,
}

export interface DefinePoolBody {
  readonly name: string
  readonly requires: readonly Term[]
}

const definedPool = schemaFor<DefinePoolBody>()(Type.Object({ name: text, requires: Type.Array(term) }))

export const definePool: Route<{ body: DefinePoolBody; reply: DefinePoolBody }> = {
  id: 'definePool',
  method: 'POST',
  path: '/v1/pools',
  scope: 'admin',
  module: 'dispatch',
  summary: 'For operators: define a pool by a rule, or change its rule.',
  description:
    'Tasks ask for it with `{ label: "pool", in: [name] }`. Counts on every server that shares the store, and stays until it is removed. ' +
    '201 when it is new, 200 when its rule was changed.',
  body: schemaFor<DefinePoolBody>()(Type.Object({ name, requires: terms }, strict)),
  replies: { 200: definedPool, 201: definedPool },
  mutates: true,
}

interface PoolParams {
  readonly name: string
}
const poolParams: Schema<PoolParams> = schemaFor<PoolParams>()(Type.Object({ name }, strict))

export const removePool: Route<{ params: PoolParams; reply: { readonly removed: boolean } }> = {
  id: 'removePool',
  method: 'DELETE',
  path: '/v1/pools/{name}',
  scope: 'admin',
  module: 'dispatch',
  summary: 'For operators: end a pool that was defined by a rule.',
  description:
    'Its nodes stay as they are. Tasks that ask for the pool wait until one of that name is defined again. `removed` is false when there was none.',
  params: poolParams,
  replies: { 200: schemaFor<{ readonly removed: boolean }>()(Type.Object({ removed: Type.Boolean() })) },
  mutates: true,
}
