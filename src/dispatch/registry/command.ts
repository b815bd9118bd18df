/**
 * Everything that can happen to the registry. A command is plain data: a run is its commands with their instants,
 * and replaying them gives the same effects. Frames of a node carry the epoch that `welcome` gave its connection:
 * what an older instance says is told apart by it.
 */
import type { Labels, NodeLoad, ServiceOffer, TaskError, TaskSpec, Term } from '../node.ts'

/** A command of the registry, told apart by `kind`. */
export type Command =
  // Results first: they free slots.
  | NodeHello
  | ({ readonly kind: 'accept'; readonly nodeId: string; readonly epoch: number } & OfAttempt)
  | ({
      readonly kind: 'reject'
      readonly nodeId: string
      readonly epoch: number
      /** `busy`, `draining` and `missing` rest the service on that node; anything else is a failed attempt. */
      readonly reason: string
      readonly retryAfterMs: number | null
    } & OfAttempt)
  | ({
      readonly kind: 'progress'
      readonly nodeId: string
      readonly epoch: number
      readonly percent: number | null
      readonly note: string | null
    } & OfAttempt)
  | ({
      readonly kind: 'result'
      readonly nodeId: string
      readonly epoch: number
      readonly output: unknown
    } & OfAttempt)
  | ({
      readonly kind: 'fail'
      readonly nodeId: string
      readonly epoch: number
      readonly error: TaskError
      readonly retryable: boolean
    } & OfAttempt)
  /**
   * What `unknownTask` with attempt 0 found out: the node runs a task that is not this server's. `uses` are the slots
   * it takes there until the node has stopped; null: none, it has ended at that node's own word, or it is unknown.
   */
  | ({
      readonly kind: 'orphan'
      readonly nodeId: string
      readonly epoch: number
      readonly uses: Readonly<Record<string, number>> | null
    } & OfAttempt)
  /** Its socket closed or it fell silent: no new work, what it runs goes on. Any later word of it lifts this. */
  | { readonly kind: 'nodeSuspect'; readonly nodeId: string; readonly epoch: number; readonly reason: string }
  /** It is dead: its tasks go on elsewhere. */
  | { readonly kind: 'nodeGone'; readonly nodeId: string; readonly epoch: number; readonly reason: string }
  /** It says goodbye: like gone, and it is forgotten. */
  | {
      readonly kind: 'nodeBye'
      readonly nodeId: string
      readonly epoch: number
      /** It is another server's now: as the same instance (what it ran spends no attempt), or as one that took over. */
      readonly elsewhere?: 'moved' | 'superseded'
    }
  /** Services or labels changed, without a reconnect. */
  | {
      readonly kind: 'nodeUpdate'
      readonly nodeId: string
      readonly epoch: number
      readonly services: readonly ServiceOffer[] | null
      readonly labels: Labels | null
    }
  // Dispatches.
  /**
   * A task whose attempt this server claimed. Known and `requeued`: its next attempt. Known otherwise: ignored.
   * `admitted` passes the bound on waiting tasks: what is durable already cannot be turned away.
   */
  | { readonly kind: 'submit'; readonly task: TaskSpec; readonly admitted: boolean }
  | { readonly kind: 'cancel'; readonly taskId: string; readonly reason: string | null }
  /** The task is no longer this server's: its claim was lost, or its next attempt went elsewhere. No end is told. */
  | {
      readonly kind: 'forget'
      readonly taskId: string
      /** This attempt and those before it: a later one has been claimed anew. Left out: any. */
      readonly attempt?: number
    }
  /** So many of those who wait with this `TaskSpec.kind` go back to the store, the last of the wait queue first: `handBack` each. */
  | { readonly kind: 'yield'; readonly demand: string; readonly count: number }
  // Heartbeats: coalesced to the newest per node.
  | Heartbeat
  // Administration.
  | {
      readonly kind: 'drain'
      readonly nodeId: string
      readonly on: boolean
      readonly deadlineAt: number | null
      /** Only this epoch of the node. Left out: any. */
      readonly epoch?: number
    }
  | {
      readonly kind: 'cordon'
      readonly nodeId: string
      readonly service: string | null
      readonly on: boolean
    }
  | { readonly kind: 'definePool'; readonly name: string; readonly requires: readonly Term[] }
  | { readonly kind: 'removePool'; readonly name: string }
  /** Builds all pools anew, beside the ones in use; also what the timed rebuild sends. */
  | { readonly kind: 'rebuild' }
  // Background.
  /** A piece of the work that `moreWork` spoke of. */
  | { readonly kind: 'rebuildSlice' }
  /** The instant that `armTimer` asked for has come. Early or needless ticks are harmless. */
  | { readonly kind: 'tick' }

/** Names of the commands. */
export type CommandKind = Command['kind']

/** The attempt that a node's frame is about. */
export interface OfAttempt {
  readonly taskId: string
  readonly attempt: number
}

/**
 * A node connected. The same instance resumes: its epoch and its tasks stay. Another instance with the same id takes
 * over: the epoch rises, the tasks of the old one go on elsewhere, its frames are refused.
 */
export interface NodeHello {
  readonly kind: 'nodeHello'
  readonly nodeId: string
  readonly instanceId: string
  /** The least epoch to give to a new instance, from the cluster state or the time; the registry may give a higher one. */
  readonly epoch: number
  /** It is draining by an earlier word of an operator's: no new work, from the first moment on. @default false */
  readonly isDraining?: boolean
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  /** Tasks it still knows, running or with a result not yet settled; null when it does not say. */
  readonly running: readonly string[] | null
}

/** A node's word about itself. */
export interface Heartbeat {
  readonly kind: 'heartbeat'
  readonly nodeId: string
  readonly epoch: number
  /** Null: it only lives (a pong, another frame). */
  readonly load: NodeLoad | null
  /** Tasks it still knows; null when it does not say. */
  readonly running: readonly string[] | null
  /**
   * How many `task.assign` frames it had received on this connection when it measured: what came later is added to
   * its load, what it has counted is not counted twice.
   */
  readonly countedSeq: number | null
}

/** Who a command is about, for logs and measurements: a node, a task or a pool. */
export function subjectOf(command: Command): string {
  switch (command.kind) {
    case 'submit':
      return command.task.taskId
    case 'cancel':
    case 'forget':
      return command.taskId
    case 'yield':
      return command.demand
    case 'definePool':
    case 'removePool':
      return command.name
    case 'rebuild':
    case 'rebuildSlice':
    case 'tick':
      return ''
    default:
      return command.nodeId
  }
}
