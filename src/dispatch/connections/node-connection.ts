/**
 * One node's connection, and the frames that both sides speak. A gateway reads and checks frames and knows sockets; the
 * dispatcher knows neither. Frames become commands with the epoch that the node's welcome gave it.
 */

import type { Labels, NodeLoad, ServiceOffer } from '../node.ts'
import type { Command, CommandKind, CommandOf } from '../registry/command.ts'

type Hello = Extract<NodeFrame, { readonly type: 'hello' }>
type Word = Exclude<NodeFrame, { readonly type: 'hello' }>

/** What one connection needs. */
export interface ConnectionParts {
  readonly post: (command: Command) => boolean
  readonly monotonicMs: () => number
  readonly heartbeatMs: number
  readonly isFull: () => boolean
  readonly whenReady: () => Promise<void>
  /** What it offers is another than before; null: the same. */
  readonly offers: (services: readonly ServiceOffer[] | null, labels: Labels | null) => void
}

/** Frames kept for a node that sends them before its welcome. */
const maxEarly = 1_000
/** With this many the socket is not read: each may be large. */
const manyEarly = 16

/** A node's connection, from its hello to its end. */
export class Connection {
  readonly nodeId: string
  /** What it said of itself, with what it has changed since. */
  hello: Hello
  readonly #parts: ConnectionParts
  readonly #link: NodeLink
  #early: Word[] = []
  #epoch: number | null = null
  #isEnded = false
  #toldAliveAt = 0
  /** By the monotonic clock; moved on when this process itself stood still. */
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

  /** The node can hear us, as far as we know. */
  get isOpen(): boolean {
    return !this.#isEnded && this.closedAt === null
  }

  /** Too many results wait: do not read from this socket until `whenReady` resolves. */
  get isFull(): boolean {
    return !this.#isEnded && (this.#early.length >= manyEarly || this.#parts.isFull())
  }

  whenReady(): Promise<void> {
    return this.#parts.whenReady()
  }

  /** It is the node's connection now; what it said meanwhile counts from here. */
  welcome(epoch: number): void {
    const { post, heartbeatMs } = this.#parts
    this.#epoch = epoch
    this.send({ type: 'welcome', epoch, heartbeatMs })
    const early = this.#early
    this.#early = []
    for (const frame of early) this.#say(frame, epoch)
    if (this.closedAt === null) return
    post({ kind: 'nodeSuspect', nodeId: this.nodeId, epoch, reason: this.closedFor })
    this.isSuspect = true
  }

  send(frame: ServerFrame): boolean {
    return this.isOpen && this.#link.send(frame)
  }

  /** A frame after `hello`, checked. */
  receive(frame: Word): void {
    if (this.#isEnded) return
    this.seenAt = this.#parts.monotonicMs()
    this.isSuspect = false
    if (this.#epoch !== null) this.#say(frame, this.#epoch)
    else if (this.#early.length < maxEarly) this.#early.push(frame)
    else this.end(4429, 'too many frames before the welcome')
  }

  /** Any sign of life: a pong, a frame that was refused. */
  alive(): void {
    if (this.#isEnded) return
    this.seenAt = this.#parts.monotonicMs()
    const wasSuspect = this.isSuspect
    this.isSuspect = false
    const isDue = this.seenAt - this.#toldAliveAt >= this.#parts.heartbeatMs / 2
    if (this.#epoch === null || !(wasSuspect || isDue)) return
    this.#toldAliveAt = this.seenAt
    const { nodeId } = this
    const epoch = this.#epoch
    this.#parts.post({ kind: 'heartbeat', nodeId, epoch, load: null, running: null, countedSeq: null })
  }

  /** The socket has closed. */
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

  /** Nothing of it is heard or sent any more. */
  end(code: number, reason: string): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#early = []
    if (this.closedAt === null) this.#link.close(code, reason)
  }

  #say(frame: Word, epoch: number): void {
    const command = commandOf(frame, this.nodeId, epoch)
    // A frame that does not fit is lost: the node keeps what matters and says it again on its next connection.
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
      this.#parts.offers(services, labels)
    }
  }
}

/** The command that each frame becomes; its other fields are the same. */
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

function commandOf(frame: Word, nodeId: string, epoch: number): Command {
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

/** A node's socket, as the dispatcher uses it. Neither throws. */
export interface NodeLink {
  /** False: it is closed, or its reader is too slow and it was closed for that. */
  send(frame: ServerFrame): boolean
  close(code: number, reason: string): void
}

/** A connection that the dispatcher holds, from `hello` on. */
export type NodeSession = Pick<Connection, 'receive' | 'alive' | 'closed' | 'isFull' | 'whenReady'>

/** Where sockets bring their nodes. */
export interface NodeConnector {
  connect(hello: Hello, link: NodeLink): NodeSession
  readonly heartbeatMs: number
}
