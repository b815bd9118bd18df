import type { NodeFrame } from '../../dispatch/index.ts'
import { type Schema, Type } from './schema.ts'
import { name } from './values.ts'

/**
 * The messages between nodes and servers over a WebSocket at `nodesPath`: JSON objects with a `type`, one per frame.
 * Their types are `NodeFrame` and `ServerFrame`. This file has the schemas of `NodeFrame`, the subprotocols that carry
 * a token, and the close codes. Both sides ignore unknown fields, so either side may be newer.
 */
export type { Labels, NodeFrame, NodeLoad, ServerFrame, ServiceOffer } from '../../dispatch/index.ts'

/** Where nodes connect. */
export const nodesPath = '/v1/nodes/connect'

/** The version of the frames. */
export const nodeProtocol = 1

/** The longest message that a server reads, in bytes. */
export const maxFrameBytes = 262_144

/**
 * Browsers cannot send custom headers with a WebSocket, but they can offer subprotocols. So two subprotocols may carry
 * the token and the namespace in base64url, and the server chooses `agreed`. A query string would appear in logs.
 */
export const nodeSubprotocols = {
  agreed: 'signalbox.v1',
  bearer: 'signalbox.bearer.',
  namespace: 'signalbox.namespace.',
} as const

/** Close codes of a server besides those of RFC 6455. Only after `unknown` may the node connect again. */
export const nodeCloseCodes = {
  /** The first frame was not a valid hello, or the token is bound to other nodes (`forbidden`). */
  badHello: 4400,
  /** The token is no longer valid. */
  unauthorized: 4401,
  /** The server does not know this connection: the node must send hello again. */
  unknown: 4404,
  /** Another instance with the same id took over. */
  superseded: 4409,
} as const

/** The code of an `error` frame. The dispatcher sends `superseded`. */
export type FrameProblem =
  | 'invalid_frame'
  | 'unknown_type'
  | 'hello_expected'
  | 'hello_twice'
  | 'unsupported_protocol'
  | 'superseded'
  | 'forbidden'
  | 'too_many'

/** Asks the server for a `pong`, which it sends at once. Platforms hide the pings of the protocol itself. */
export interface PingFrame {
  readonly type: 'ping'
}

/** The limits of a node's frames. */
export const frameLimits = {
  maxServices: 256,
  maxSlots: 65_536,
  maxTags: 64,
  maxTagValues: 1_024,
  maxLabels: 256,
  maxNoteChars: 1_024,
  maxMessageChars: 4_096,
} as const

const attempt = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const ofAttempt = { taskId: name, attempt }
const running = Type.Array(name)
const failureText = Type.String({ maxLength: frameLimits.maxMessageChars })
const fraction = Type.Number({ minimum: 0, maximum: 1 })

const service = Type.Object({
  name,
  slots: Type.Integer({ minimum: 1, maximum: frameLimits.maxSlots }),
  tags: Type.Optional(
    Type.Record(Type.String(), Type.Array(name, { maxItems: frameLimits.maxTagValues }), {
      maxProperties: frameLimits.maxTags,
    }),
  ),
})
const services = Type.Array(service, { maxItems: frameLimits.maxServices })
const labels = Type.Record(
  Type.String(),
  Type.Union([Type.String({ maxLength: 191 }), Type.Number(), Type.Boolean()]),
  { maxProperties: frameLimits.maxLabels },
)

/** The frames that a server accepts, by type. A node sends null for an unknown value, or leaves it out. */
export const nodeFrameSchemas: Readonly<Record<NodeFrame['type'] | 'ping', Schema>> = {
  hello: Type.Object({
    nodeId: name,
    instanceId: name,
    services,
    labels: Type.Optional(labels),
    running: orNull(running),
    // An unknown version gets its own problem, which lists the known ones.
    protocol: Type.Optional(Type.Integer()),
  }),
  heartbeat: Type.Object({
    load: Type.Optional(
      Type.Object({ cpu: orNull(fraction), gpu: orNull(fraction), memory: orNull(fraction) }),
    ),
    running: orNull(running),
    countedSeq: orNull(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  }),
  'task.accept': Type.Object(ofAttempt),
  'task.reject': Type.Object({
    ...ofAttempt,
    reason: name,
    retryAfterMs: orNull(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
  }),
  'task.progress': Type.Object({
    ...ofAttempt,
    percent: orNull(Type.Number({ minimum: 0, maximum: 100 })),
    note: orNull(Type.String({ maxLength: frameLimits.maxNoteChars })),
  }),
  'task.result': Type.Object({ ...ofAttempt, output: Type.Optional(Type.Unknown()) }),
  'task.fail': Type.Object({
    ...ofAttempt,
    // A text is the message of the error, as in all routes.
    error: Type.Union([Type.Object({ code: Type.Optional(name), message: failureText }), failureText]),
    retryable: Type.Optional(Type.Boolean()),
  }),
  update: Type.Object({ services: orNull(services), labels: orNull(labels) }),
  bye: Type.Object({}),
  ping: Type.Object({}),
}

function orNull(schema: Schema) {
  return Type.Optional(Type.Union([schema, Type.Null()]))
}
