import type { CordonOptions, Dispatch, NodeView, PoolView } from '../../../dispatch/index.ts'
import { nodesPath } from '../node-frames.ts'
import { type Route, route } from '../route.ts'
import { object, oneOf, queryObject, type Schema, strictObject, Type } from '../schema.ts'
import {
  count,
  type IdParams,
  type NameParams,
  name,
  orNull,
  type Page,
  type PageQuery,
  pageOf,
  pageQuery,
  span,
  term,
  terms,
} from '../values.ts'

/** Nodes and pools, for operators. Nodes themselves connect by WebSocket. */

const text = Type.String()
const textOrNull = orNull(text)
const numberOrNull = orNull(Type.Number())
const spanOrNull = orNull(span)

export const nodeSchema: Schema<NodeView> = object({
  nodeId: text,
  instanceId: text,
  epoch: Type.Integer(),
  status: oneOf('ready', 'suspect', 'gone'),
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
})

/** Facts for a node before it connects. */
interface NodeInfo {
  /** The version of the frames that this server speaks. */
  readonly protocol: number
  readonly heartbeatMs: number
}

export const nodeInfo: Route<{ reply: NodeInfo }> = {
  ...route('dispatch', 'nodeInfo', `GET ${nodesPath}`, 'work'),
  forNodes: true,
  summary: 'Where nodes connect by WebSocket. A plain request gets the protocol version.',
  description:
    'The token comes in the Authorization header or, from a browser, as the subprotocol `signalbox.bearer.` plus ' +
    'the token in base64url, beside `signalbox.v1`. Messages are JSON objects with a `type`; the first is ' +
    '`hello`.',
  replies: { 200: object({ protocol: count, heartbeatMs: count }) },
}

export interface ListNodesQuery extends PageQuery {
  /** Only this node. */
  readonly nodeId?: string | undefined
  /** Only nodes that offer this service. */
  readonly service?: string | undefined
}

export const listNodes: Route<{ query: ListNodesQuery; reply: Page<NodeView> }> = {
  ...route('dispatch', 'listNodes', 'GET /v1/nodes', 'read'),
  summary: 'List nodes by id: services, load, running tasks.',
  description:
    "The list may be a moment old. `restsUntil`, `seenAt` and `joinedAt` are times of the server's clock.",
  query: queryObject({
    nodeId: Type.Optional(name),
    service: Type.Optional(name),
    ...pageQuery(2_048),
  }),
  replies: { 200: pageOf(nodeSchema) },
}

type DrainNodeBody = NonNullable<Parameters<Dispatch['drain']>[1]>

export const drainNode: Route<{ params: IdParams; body: DrainNodeBody; reply: NodeView }> = {
  ...route('dispatch', 'drainNode', 'POST /v1/nodes/{id}/drain', 'admin'),
  summary: 'For operators: give a node no new work. Tasks that still run at the deadline go to other nodes.',
  body: strictObject({
    on: Type.Optional(Type.Boolean()),
    deadlineMs: Type.Optional(spanOrNull),
  }),
  bodyOptional: true,
  replies: { 200: nodeSchema },
  problems: ['not_found'],
}

interface CordonNodeBody extends CordonOptions {
  /** False opens it again. @default true */
  readonly on?: boolean | undefined
}

export const cordonNode: Route<{
  params: IdParams
  body: CordonNodeBody
  reply: { readonly cordoned: boolean }
}> = {
  ...route('dispatch', 'cordonNode', 'POST /v1/nodes/{id}/cordon', 'admin'),
  summary: 'For operators: close a node, or one of its services, for new work, or open it again.',
  description: 'Valid on every server that shares the store, until it is lifted.',
  body: strictObject({
    service: Type.Optional(orNull(name)),
    on: Type.Optional(Type.Boolean()),
  }),
  bodyOptional: true,
  replies: {
    200: object({ cordoned: Type.Boolean() }),
  },
  problems: ['not_found'],
}

const pool: Schema<PoolView> = object({
  name: textOrNull,
  signature: textOrNull,
  requires: Type.Array(term),
  nodeCount: count,
})

export const listPools: Route<{ reply: Page<PoolView> }> = {
  ...route('dispatch', 'listPools', 'GET /v1/pools', 'read'),
  summary: 'List pools: those that follow from the services of nodes, and those defined by a rule.',
  replies: { 200: pageOf(pool) },
}

export type DefinePoolBody = Parameters<Dispatch['definePool']>[0]

const definedPool: Schema<DefinePoolBody> = object({ name: text, requires: Type.Array(term) })

export const definePool: Route<{ body: DefinePoolBody; reply: DefinePoolBody }> = {
  ...route('dispatch', 'definePool', 'POST /v1/pools', 'admin'),
  summary: 'For operators: define a pool by a rule, or change its rule.',
  description:
    'Tasks ask for it with `{ label: "pool", in: [name] }`. Valid on every server that shares the store, until it ' +
    'is removed. 201 when the pool is new, 200 when its rule was changed.',
  body: strictObject({ name, requires: terms }),
  replies: { 200: definedPool, 201: definedPool },
}

export const removePool: Route<{ params: NameParams; reply: { readonly removed: boolean } }> = {
  ...route('dispatch', 'removePool', 'DELETE /v1/pools/{name}', 'admin'),
  summary: 'For operators: remove a pool that was defined by a rule.',
  description:
    'Its nodes stay as they are. Tasks that ask for the pool wait until a pool of that name is defined again. ' +
    '`removed` is false when there was no such pool.',
  replies: { 200: object({ removed: Type.Boolean() }) },
}
