/** One socket's node: its frames become commands with the epoch that its welcome gave it. */

import type { Labels, ServiceOffer } from '../node.ts'
import type { Command } from '../registry/command.ts'
import type { NodeFrame, NodeLink, NodeSession, ServerFrame } from './node-link.ts'

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

/** Frames kept for a node that speaks before it was welcomed. */
const maxEarly = 1_000
/** With so many of them its socket is not read: each may be large. */
const manyEarly = 16

/** A node's connection, from its hello to its end. */
export class Connection implements NodeSession {
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

  receive(frame: Word): void {
    if (this.#isEnded) return
    this.seenAt = this.#parts.monotonicMs()
    this.isSuspect = false
    if (this.#epoch !== null) this.#say(frame, this.#epoch)
    else if (this.#early.length < maxEarly) this.#early.push(frame)
    else this.end(4429, 'too many frames before the welcome')
  }

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

/** Field by field: there are two of these for every task, and copies of parts would be most of what they cost. */
function commandOf(frame: Word, nodeId: string, epoch: number): Command {
  switch (frame.type) {
    case 'heartbeat': {
      const { load, running, countedSeq } = frame
      return { kind: 'heartbeat', nodeId, epoch, load, running, countedSeq }
    }
    case 'update':
      return { kind: 'nodeUpdate', nodeId, epoch, services: frame.services, labels: frame.labels }
    case 'bye':
      return { kind: 'nodeBye', nodeId, epoch }
    case 'task.accept':
      return { kind: 'accept', nodeId, epoch, taskId: frame.taskId, attempt: frame.attempt }
    case 'task.reject': {
      const { taskId, attempt, reason, retryAfterMs } = frame
      return { kind: 'reject', nodeId, epoch, taskId, attempt, reason, retryAfterMs }
    }
    case 'task.progress': {
      const { taskId, attempt, percent, note } = frame
      return { kind: 'progress', nodeId, epoch, taskId, attempt, percent, note }
    }
    case 'task.result': {
      const { taskId, attempt, output } = frame
      return { kind: 'result', nodeId, epoch, taskId, attempt, output }
    }
    case 'task.fail': {
      const { taskId, attempt, retryable } = frame
      const { code = 'failed', message } = frame.error
      return { kind: 'fail', nodeId, epoch, taskId, attempt, error: { code, message }, retryable }
    }
  }
}
