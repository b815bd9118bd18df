/**
 * The connection of one node, and the frames of both sides. The gateway handles sockets and checks frames; the
 * dispatcher does neither. Frames become commands with the epoch that the welcome gave to the node.
 */

import type { Labels, NodeLoad, ServiceOffer } from '../node.ts'
import type { Command, CommandKind, CommandOf } from '../registry/command.ts'

/** The first frame of a node. */
export type Hello = Extract<NodeFrame, { readonly type: 'hello' }>
type LaterFrame = Exclude<NodeFrame, { readonly type: 'hello' }>

/** The parts of a connection. */
export interface ConnectionParts {
  readonly post: (command: Command) => boolean
  readonly monotonicMs: () => number
  readonly heartbeatMs: number
  readonly isFull: () => boolean
  readonly whenReady: () => Promise<void>
  /** Called when the node changed its offer; null: that part is unchanged. */
  readonly onOfferChanged: (services: readonly ServiceOffer[] | null, labels: Labels | null) => void
}

/** How many frames are kept for a node that sends them before its welcome. */
const maxEarlyFrames = 1_000
/** With this many early frames the socket is not read, because each may be large. */
const manyEarlyFrames = 16

/** A node's connection, from its hello to its end. */
export class Connection {
  readonly nodeId: string
  /** The node's hello, with later changes of its offer. */
  hello: Hello
  readonly #parts: ConnectionParts
  readonly #link: NodeLink
  #earlyFrames: LaterFrame[] = []
  #epoch: number | null = null
  #isEnded = false
  #reportedAliveAt = 0
  /** By the monotonic clock. It is moved forward by the time for which this process stalled. */
  seenAt: number
  closedAt: number | null = null
  closedFor = ''
  isSuspect = false

  constructor(hello: Hello, link: NodeLink, parts: ConnectionParts) {
    this.nodeId = hello.nodeId
    this.hello = hello
    this.#link = link
    this.#parts = parts
    this.seenAt = parts.monotonicMs()
  }

  get epoch(): number | null {
    return this.#epoch
  }

  /** As far as this server knows, the node can receive frames. */
  get isOpen(): boolean {
    return !this.#isEnded && this.closedAt === null
  }

  /** Too many results wait: do not read from this socket until `whenReady` resolves. */
  get isFull(): boolean {
    return !this.#isEnded && (this.#earlyFrames.length >= manyEarlyFrames || this.#parts.isFull())
  }

  whenReady(): Promise<void> {
    return this.#parts.whenReady()
  }

  /** Welcomes the node and handles its early frames. */
  welcome(epoch: number): void {
    const { post, heartbeatMs } = this.#parts
    this.#epoch = epoch
    this.send({ type: 'welcome', epoch, heartbeatMs })
    const early = this.#earlyFrames
    this.#earlyFrames = []
    for (const frame of early) this.#post(frame, epoch)
    if (this.closedAt === null) return
    post({ kind: 'nodeSuspect', nodeId: this.nodeId, epoch, reason: this.closedFor })
    this.isSuspect = true
  }

  send(frame: ServerFrame): boolean {
    return this.isOpen && this.#link.send(frame)
  }

  /** Handles a checked frame after `hello`. */
  receive(frame: LaterFrame): void {
    if (this.#isEnded) return
    this.seenAt = this.#parts.monotonicMs()
    this.isSuspect = false
    if (this.#epoch !== null) this.#post(frame, this.#epoch)
    else if (this.#earlyFrames.length < maxEarlyFrames) this.#earlyFrames.push(frame)
    else this.end(4429, 'too many frames before the welcome')
  }

  /** Records any sign of life: a pong, or a refused frame. */
  alive(): void {
    if (this.#isEnded) return
    this.seenAt = this.#parts.monotonicMs()
    const wasSuspect = this.isSuspect
    this.isSuspect = false
    const isDue = this.seenAt - this.#reportedAliveAt >= this.#parts.heartbeatMs / 2
    if (this.#epoch === null || !(wasSuspect || isDue)) return
    this.#reportedAliveAt = this.seenAt
    const { nodeId } = this
    const epoch = this.#epoch
    this.#parts.post({ kind: 'heartbeat', nodeId, epoch, load: null, running: null, countedSeq: null })
  }

  /** Records that the socket closed. */
  closed(reason: string): void {
    if (this.#isEnded || this.closedAt !== null) return
    this.closedAt = this.#parts.monotonicMs()
    this.closedFor = reason
    if (this.#epoch !== null) this.suspect(`its socket closed: ${reason}`)
  }

  suspect(reason: string): void {
    if (this.#epoch === null) return
    this.isSuspect = true
    this.#parts.post({ kind: 'nodeSuspect', nodeId: this.nodeId, epoch: this.#epoch, reason })
  }

  /** Ends the connection: it receives and sends no more frames. */
  end(code: number, reason: string): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#earlyFrames = []
    if (this.closedAt === null) this.#link.close(code, reason)
  }

  #post(frame: LaterFrame, epoch: number): void {
    const command = commandOf(frame, this.nodeId, epoch)
    // A frame that the mailbox refuses is lost. The node keeps its results and sends them on its next connection.
    if (!this.#parts.post(command)) {
      this.closed('too many results wait')
      this.#link.close(4429, 'too many results wait')
    } else if (frame.type === 'update') {
      const { services, labels } = frame
      this.hello = {
        ...this.hello,
        services: services ?? this.hello.services,
        labels: labels ?? this.hello.labels,
      }
      this.#parts.onOfferChanged(services, labels)
    }
  }
}

/** The command of each frame. The other fields stay the same. */
const kinds = {
  heartbeat: 'heartbeat',
  update: 'nodeUpdate',
  bye: 'nodeBye',
  'task.accept': 'accept',
  'task.reject': 'reject',
  'task.progress': 'progress',
  'task.result': 'result',
  'task.fail': 'fail',
} as const

function commandOf(frame: LaterFrame, nodeId: string, epoch: number): Command {
  const { type, ...fields } = frame
  if (frame.type !== 'task.fail') return { kind: kinds[type], nodeId, epoch, ...fields } as Command
  const { code = 'failed', message } = frame.error
  const { taskId, attempt, retryable } = frame
  return { kind: 'fail', nodeId, epoch, taskId, attempt, error: { code, message }, retryable }
}

/** The fields that a frame and its command share. */
type FieldsOf<Kind extends CommandKind> = Omit<CommandOf<Kind>, 'kind' | 'nodeId' | 'epoch'>

/** A frame from a node. Unknown fields are ignored. */
export type NodeFrame =
  | ({ readonly type: 'hello'; readonly nodeId: string; readonly protocol: 1 } & Omit<
      FieldsOf<'nodeHello'>,
      'isDraining'
    >)
  | ({ readonly type: 'heartbeat'; readonly load: NodeLoad } & FieldsOf<'heartbeat'>)
  | ({ readonly type: 'task.accept' } & FieldsOf<'accept'>)
  | ({ readonly type: 'task.reject' } & FieldsOf<'reject'>)
  | ({ readonly type: 'task.progress' } & FieldsOf<'progress'>)
  | ({ readonly type: 'task.result' } & FieldsOf<'result'>)
  | ({
      readonly type: 'task.fail'
      readonly error: { readonly code?: string; readonly message: string }
    } & Omit<FieldsOf<'fail'>, 'error'>)
  | ({ readonly type: 'update' } & FieldsOf<'nodeUpdate'>)
  | { readonly type: 'bye' }

/** A frame to a node. */
export type ServerFrame =
  | { readonly type: 'welcome'; readonly epoch: number; readonly heartbeatMs: number }
  | {
      readonly type: 'task.assign'
      readonly taskId: string
      readonly attempt: number
      readonly service: string
      readonly payload: unknown
      readonly deadlineAt: number | null
    }
  | {
      readonly type: 'task.cancel' | 'task.stale' | 'task.settled'
      readonly taskId: string
      readonly attempt: number
    }
  | { readonly type: 'drain' }
  | { readonly type: 'error'; readonly code: string; readonly message: string }

/** The socket of a node, as the dispatcher uses it. The methods never throw. */
export interface NodeLink {
  /** False: the socket is closed, perhaps because its reader was too slow. */
  send(frame: ServerFrame): boolean
  close(code: number, reason: string): void
}

/** A connection that the dispatcher holds, beginning with `hello`. */
export type NodeSession = Pick<Connection, 'receive' | 'alive' | 'closed' | 'isFull' | 'whenReady'>

/** Connects the nodes of sockets. */
export interface NodeConnector {
  connect(hello: Hello, link: NodeLink): NodeSession
  readonly heartbeatMs: number
}
