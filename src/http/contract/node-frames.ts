import type { NodeFrame } from '../../dispatch/index.ts'
import { type Schema, Type } from './schema.ts'
import { name } from './values.ts'

/**
 * What nodes and servers say to each other over a WebSocket at `nodesPath`: JSON objects with a `type`, one message a
 * frame. The words are in `NodeFrame` and `ServerFrame`; here is what a server takes of the former, how a node shows its
 * token, and what the close codes mean. Fields that are not known are ignored, so either side may be the newer one.
 */
export type { Labels, NodeFrame, NodeLoad, ServerFrame, ServiceOffer } from '../../dispatch/index.ts'

/** Where nodes connect. */
export const nodesPath = '/v1/nodes/connect'

/** The version of the frames. */
export const nodeProtocol = 1

/** The longest message a server reads, in bytes. */
export const maxFrameBytes = 262_144

/**
 * Browsers can send no headers with a WebSocket but the subprotocols they offer, so a token and a namespace may come as
 * two of those, each in base64url; the server agrees on `agreed`. A query string would end up in logs.
 */
export const nodeSubprotocols = {
  agreed: 'signalbox.v1',
  bearer: 'signalbox.bearer.',
  namespace: 'signalbox.namespace.',
} as const

/** Why a server closes a node's socket, besides the codes of RFC 6455. After all but `unknown` it is of no use to come again. */
export const nodeCloseCodes = {
  /** The first frame was not a hello that it takes; `forbidden`: its token is bound to other nodes. */
  badHello: 4400,
  /** The token counts no more. */
  unauthorized: 4401,
  /** The server does not know this connection: the node is to say hello again, there. */
  unknown: 4404,
  /** Another instance with the same id took over. */
  superseded: 4409,
} as const

/** Codes of `error` frames; `superseded` is the dispatcher's. */
export const frameProblems = [
  'invalid_frame',
  'unknown_type',
  'hello_expected',
  'hello_twice',
  'unsupported_protocol',
  'superseded',
  'forbidden',
  'too_many',
] as const

/** One of `frameProblems`. */
export type FrameProblem = (typeof frameProblems)[number]

/** Whether the other side is there: a server answers `pong`, at once. Platforms hide the pings of the protocol itself. */
export interface PingFrame {
  readonly type: 'ping'
}

/** The answer to a ping. */
export interface PongFrame {
  readonly type: 'pong'
}

/** What a node may offer and say at most. */
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

/** What a server takes, by type. What is not known is null or left out. */
export const nodeFrameSchemas: Readonly<Record<NodeFrame['type'] | 'ping', Schema>> = {
  hello: Type.Object({
    nodeId: name,
    instanceId: name,
    services,
    labels: Type.Optional(labels),
    running: orNull(running),
    // Which ones are spoken is said by a problem of its own.
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
    // Text is its message, as everywhere.
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
