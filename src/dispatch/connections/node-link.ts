/**
 * Between a node's socket and the dispatcher: frames as both sides speak them, and who is told what. A gateway reads and
 * checks frames and knows sockets; the dispatcher knows neither.
 */
import type { Labels, NodeLoad, ServiceOffer } from '../node.ts'

/** What a node says. Unknown fields are ignored. */
export type NodeFrame =
  | {
      readonly type: 'hello'
      readonly nodeId: string
      readonly instanceId: string
      readonly services: readonly ServiceOffer[]
      readonly labels: Labels
      /** Tasks it still knows, running or with a result not yet settled. */
      readonly running: readonly string[] | null
      readonly protocol: 1
    }
  | {
      readonly type: 'heartbeat'
      readonly load: NodeLoad
      readonly running: readonly string[] | null
      readonly countedSeq: number | null
    }
  | { readonly type: 'task.accept'; readonly taskId: string; readonly attempt: number }
  | {
      readonly type: 'task.reject'
      readonly taskId: string
      readonly attempt: number
      readonly reason: string
      readonly retryAfterMs: number | null
    }
  | {
      readonly type: 'task.progress'
      readonly taskId: string
      readonly attempt: number
      readonly percent: number | null
      readonly note: string | null
    }
  | {
      readonly type: 'task.result'
      readonly taskId: string
      readonly attempt: number
      readonly output: unknown
    }
  | {
      readonly type: 'task.fail'
      readonly taskId: string
      readonly attempt: number
      readonly error: { readonly code?: string; readonly message: string }
      readonly retryable: boolean
    }
  | {
      readonly type: 'update'
      readonly services: readonly ServiceOffer[] | null
      readonly labels: Labels | null
    }
  | { readonly type: 'bye' }

/** What a node is told. */
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
export interface NodeSession {
  /** A frame after `hello`, checked. */
  receive(frame: Exclude<NodeFrame, { readonly type: 'hello' }>): void
  /** Any sign of life: a pong, a frame that was refused. */
  alive(): void
  /** The socket has closed. */
  closed(reason: string): void
  /** Too many results wait: do not read from this socket until `whenReady` resolves. */
  readonly isFull: boolean
  whenReady(): Promise<void>
}

/** Where sockets bring their nodes. */
export interface NodeConnector {
  connect(hello: Extract<NodeFrame, { readonly type: 'hello' }>, link: NodeLink): NodeSession
  readonly heartbeatMs: number
}
