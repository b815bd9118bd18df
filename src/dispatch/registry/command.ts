/**
 * What goes into the registry, commands, and what comes out, effects. Both are plain data: a run is its commands with
 * their instants, and replaying them gives the same effects. Frames of a node carry the epoch that `welcome` gave its
 * connection, so frames of an older instance are recognised.
 */

import type {
  FaultCode,
  Labels,
  NodeLoad,
  ServiceOffer,
  TaskEnd,
  TaskError,
  TaskSpec,
  Term,
} from '../node.ts'

/** A connection of a node. */
export interface OfNode {
  readonly nodeId: string
  readonly epoch: number
}

/** An attempt of a task. */
export interface OfAttempt {
  readonly taskId: string
  readonly attempt: number
}

/** A frame of a node about an attempt. */
type Frame<Kind extends string, Fields = unknown> = { readonly kind: Kind } & OfNode & OfAttempt & Fields

/** What a node says about an attempt. */
export type AttemptFrame =
  | Frame<'accept'>
  /** `busy`, `draining` and `missing` rest the service on that node; any other reason is a failed attempt. */
  | Frame<'reject', { readonly reason: string; readonly retryAfterMs: number | null }>
  | Frame<'progress', { readonly percent: number | null; readonly note: string | null }>
  | Frame<'result', { readonly output: unknown }>
  | Frame<'fail', { readonly error: TaskError; readonly retryable: boolean }>

/** A command of the registry. */
export type Command =
  // Results first: they free slots.
  | NodeHello
  | AttemptFrame
  /**
   * The answer to `unknownTask` with attempt 0: the node runs a task that is not this server's. `uses` are the slots it
   * takes there until the node has stopped; null: none, because this node ended it, or it is unknown.
   */
  | Frame<'orphan', { readonly uses: Readonly<Record<string, number>> | null }>
  /** Its socket closed or it fell silent: no new work, running tasks go on. Any later frame of the node lifts this. */
  | ({ readonly kind: 'nodeSuspect'; readonly reason: string } & OfNode)
  /** It is dead: its tasks go on elsewhere. */
  | ({ readonly kind: 'nodeGone'; readonly reason: string } & OfNode)
  /**
   * It says goodbye: like gone, and it is forgotten. `elsewhere`: another server has it now, as the same instance (its
   * tasks spend no attempt), or as one that took over.
   */
  | ({ readonly kind: 'nodeBye'; readonly elsewhere?: 'moved' | 'superseded' } & OfNode)
  /** Services or labels changed, without a reconnect. */
  | ({
      readonly kind: 'nodeUpdate'
      readonly services: readonly ServiceOffer[] | null
      readonly labels: Labels | null
    } & OfNode)
  // Dispatches.
  /**
   * A task whose attempt this server claimed. One that is known with this attempt or a later one is ignored. It is durable,
   * so it is taken in however many wait; `admission` says before the write whether one more may wait.
   */
  | { readonly kind: 'submit'; readonly task: TaskSpec }
  | { readonly kind: 'cancel'; readonly taskId: string; readonly reason: string | null }
  /** The task is no longer this server's. `attempt`: this one and those before it. Left out: any. No end is reported. */
  | { readonly kind: 'forget'; readonly taskId: string; readonly attempt?: number }
  /** Hands `count` waiting tasks of this `TaskSpec.kind` back to the store, the last of the wait queue first. */
  | { readonly kind: 'yield'; readonly demand: string; readonly count: number }
  // Heartbeats: coalesced to the newest per node.
  | Heartbeat
  // Administration. `epoch`: only this epoch of the node. Left out: any.
  | {
      readonly kind: 'drain'
      readonly nodeId: string
      readonly on: boolean
      readonly deadlineAt: number | null
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
  /** Builds all pools anew, beside the ones in use. The timed rebuild sends it too. */
  | { readonly kind: 'rebuild' }
  // Background.
  /** A piece of the work that `moreWork` announced. */
  | { readonly kind: 'rebuildSlice' }
  /** The instant that `armTimer` asked for has come. Early or needless ticks are harmless. */
  | { readonly kind: 'tick' }

/** Names of the commands. */
export type CommandKind = Command['kind']

/** The command of one kind, or of a few. */
export type CommandOf<Kind extends CommandKind> = Extract<Command, { kind: Kind }>

/**
 * A node connected. The same instance resumes: its epoch and its tasks stay. Another instance with the same id takes
 * over: the epoch rises, the tasks of the old one go on elsewhere, its frames are refused.
 */
export interface NodeHello extends OfNode {
  readonly kind: 'nodeHello'
  readonly instanceId: string
  /** The least epoch for a new instance, from the cluster state or the time; the registry may give a higher one. */
  readonly epoch: number
  /** An operator drained it before: no new work, from the first moment on. @default false */
  readonly isDraining?: boolean
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  /** Tasks it still knows, running or with a result not yet settled; null when it does not say. */
  readonly running: readonly string[] | null
}

/** A node's report about itself. */
export interface Heartbeat extends OfNode {
  readonly kind: 'heartbeat'
  /** Null: it only lives (a pong, another frame). */
  readonly load: NodeLoad | null
  /** Tasks it still knows; null when it does not say. */
  readonly running: readonly string[] | null
  /**
   * How many `task.assign` frames it had received on this connection when it measured. The registry adds later assigns
   * to the load, and counts no assign twice.
   */
  readonly countedSeq: number | null
}

/** The node, task or pool that a command is about, for logs and measurements. */
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

/**
 * What the registry wants done. It does nothing itself: the effect runner sends frames, writes ends, looks tasks up and
 * sets timers, in the order of the effects, and comes back with commands.
 */
export type Effect =
  /** Send `welcome {epoch}`. `resumed`: the same instance came back, its tasks are still its own. */
  | ({ readonly kind: 'welcome'; readonly resumed: boolean } & OfNode)
  /**
   * Send `error {code: 'superseded'}` and close 4409 to the connection of that epoch; with `instanceId`, to the one
   * that just said hello and was refused.
   */
  | ({ readonly kind: 'superseded'; readonly instanceId: string | null } & OfNode)
  /** The registry does not know this connection: close it, so that the node says hello again. Its earlier tasks are lost to it. */
  | ({ readonly kind: 'unknownNode' } & OfNode)
  /** The node is out of the registry: drop its connection and its row. */
  | ({ readonly kind: 'nodeForgotten' } & OfNode)
  /** Send `drain`. */
  | ({ readonly kind: 'drainFrame' } & OfNode)
  /** A drained node runs nothing any more: it may be closed. */
  | ({ readonly kind: 'drained' } & OfNode)
  | Assign
  /** Send `task.cancel`. The slot stays taken until the node answers, or for `cancelGraceMs`. */
  | ({ readonly kind: 'cancelFrame' } & OfNode & OfAttempt)
  /** Send `task.stale`: the frame was about an attempt that is not, or no longer, this node's. Attempt 0: any attempt. */
  | ({ readonly kind: 'stale' } & OfNode & OfAttempt)
  /**
   * A frame about a task that is not in the registry: it ended, was never here, or belongs to another server. Look it
   * up: answer `task.settled` when that attempt is the one that ended it, `task.stale` otherwise, and nothing while its
   * end is still being written. Attempt 0: the node only lists it as running. Then `orphan` must come back too, because
   * the node gets no new work before.
   */
  | ({ readonly kind: 'unknownTask'; readonly said: string } & OfNode & OfAttempt)
  | Settled
  /**
   * This attempt is over and the task is not: it is out of the registry, and its job is handed back. The server that
   * claims it then submits it with a higher attempt. `isFree`: no attempt is spent, because its node moved to another
   * server.
   */
  | ({
      readonly kind: 'requeue'
      readonly nodeId: string | null
      readonly code: FaultCode
      readonly error: TaskError
      readonly afterMs: number
      readonly isFree?: boolean
    } & OfAttempt)
  /** It waited here and is out of the registry: hand the claim back for another server, without spending an attempt. */
  | ({ readonly kind: 'handBack' } & OfAttempt)
  /** A task moved: inform its watchers. `assign` says that it was assigned. */
  | ({
      readonly kind: 'taskChanged'
      readonly status: 'waiting' | 'running'
      readonly nodeId: string | null
    } & OfAttempt)
  | ({ readonly kind: 'progress'; readonly percent: number | null; readonly note: string | null } & OfAttempt)
  /** Send `tick` at that instant or soon after; replaces the one armed before. */
  | { readonly kind: 'armTimer'; readonly at: number }
  /** Work is left: send `rebuildSlice` when there is time, at the latest in 50 ms. */
  | { readonly kind: 'moreWork' }
  /** Something worth a line in the log or the audit. */
  | { readonly kind: 'event'; readonly event: RegistryEvent }

/** Names of the effects. */
export type EffectKind = Effect['kind']

/** Send `task.assign`. `seq` counts the assigns of that connection from 1, as `countedSeq` does. */
export interface Assign extends OfNode, OfAttempt {
  readonly kind: 'assign'
  readonly seq: number
  readonly service: string
  readonly deadlineAt: number | null
}

/**
 * The task ended; emitted exactly once. Write it durably, then send `task.settled` to `nodeId`, the node that reported
 * the end (null: no node waits for it). `task.settled` must not be sent before that is written.
 */
export interface Settled extends OfAttempt {
  readonly kind: 'settled'
  readonly end: TaskEnd
  /** Meaningful when completed. */
  readonly output: unknown
  /** Null when completed. */
  readonly error: TaskError | null
  readonly nodeId: string | null
  readonly epoch: number
}

/** What the registry reports for the log. */
export type RegistryEvent =
  | ({ readonly name: 'node.ready'; readonly resumed: boolean } & OfNode)
  | ({ readonly name: 'node.suspect' | 'node.gone'; readonly reason: string } & OfNode)
  | ({ readonly name: 'node.superseded' } & OfNode)
  | ({ readonly name: 'slot.forced'; readonly nodeId: string } & OfAttempt)
  /** The lookup of these tasks timed out: the node gets work again. */
  | ({ readonly name: 'node.unanswered'; readonly taskCount: number } & OfNode)
  | { readonly name: 'node.held'; readonly nodeId: string; readonly taskId: string }
  | {
      readonly name: 'pools.rebuilt'
      readonly generation: number
      readonly nodeCount: number
      readonly poolCount: number
      readonly tookMs: number
    }
