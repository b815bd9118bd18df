/**
 * The registry takes commands and answers effects. Both are plain data: replaying the commands with their instants
 * gives the same effects. Frames of a node carry the epoch that `welcome` gave its connection, so that the registry
 * recognises frames of an older instance.
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

/** A node's report about an attempt. */
export type AttemptFrame =
  | Frame<'accept'>
  /** `busy`, `draining` and `missing` rest the service on that node; any other reason fails the attempt. */
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
   * The answer to `unknownTask` with attempt 0: the node runs a task that this server does not hold. `uses` are the
   * slots that the task takes until the node has stopped it. Null: none, because this node ended the task, or no task
   * has the id.
   */
  | Frame<'orphan', { readonly uses: Readonly<Record<string, number>> | null }>
  /**
   * The node's socket closed or it fell silent: it gets no new work, and running tasks go on. Its next frame ends
   * this.
   */
  | ({ readonly kind: 'nodeSuspect'; readonly reason: string } & OfNode)
  /** The node is dead: its tasks continue on other nodes. */
  | ({ readonly kind: 'nodeGone'; readonly reason: string } & OfNode)
  /**
   * The node leaves: like `nodeGone`, and the registry forgets it. `elsewhere`: it is connected to another server now,
   * as the same instance (`moved`: its tasks spend no attempt), or as a new instance that took over (`superseded`).
   */
  | ({ readonly kind: 'nodeBye'; readonly elsewhere?: 'moved' | 'superseded' } & OfNode)
  /** The node changed its services or labels without a reconnect. */
  | ({
      readonly kind: 'nodeUpdate'
      readonly services: readonly ServiceOffer[] | null
      readonly labels: Labels | null
    } & OfNode)
  // Dispatches.
  /**
   * A task whose attempt this server claimed. Ignored if the registry knows the task with this attempt or a later one.
   * The task is stored already, so the registry accepts it however many wait; `admission` limits submits before the
   * write.
   */
  | { readonly kind: 'submit'; readonly task: TaskSpec }
  | { readonly kind: 'cancel'; readonly taskId: string; readonly reason: string | null }
  /** This server lost the task. `attempt`: up to this attempt. Left out: any attempt. The registry reports no end. */
  | { readonly kind: 'forget'; readonly taskId: string; readonly attempt?: number }
  /** Hands `count` waiting tasks of this `TaskSpec.kind` back to the store, from the end of the wait queue. */
  | { readonly kind: 'yield'; readonly demand: string; readonly count: number }
  // Heartbeats: the mailbox keeps only the newest of each node.
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
  /** Builds all pools again, beside the ones in use. A timer sends it too. */
  | { readonly kind: 'rebuild' }
  // Background.
  /** Does a slice of the work that `moreWork` announced. */
  | { readonly kind: 'rebuildSlice' }
  /** The instant of `armTimer` is reached. Early or extra ticks are harmless. */
  | { readonly kind: 'tick' }

/** Names of the commands. */
export type CommandKind = Command['kind']

/** The command of one kind, or of several. */
export type CommandOf<Kind extends CommandKind> = Extract<Command, { kind: Kind }>

/**
 * A node connected. The same instance resumes and keeps its epoch and its tasks. Another instance with the same id
 * takes over: the epoch rises, the old instance's tasks continue on other nodes, and its frames are refused.
 */
export interface NodeHello extends OfNode {
  readonly kind: 'nodeHello'
  readonly instanceId: string
  /** The lowest epoch for a new instance, from the cluster state or the time; the registry may give a higher one. */
  readonly epoch: number
  /** An operator drained the node before: it gets no new work from the start. @default false */
  readonly isDraining?: boolean
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  /** Tasks that the node still knows: running, or with a result not yet settled. Null: the node sent no list. */
  readonly running: readonly string[] | null
}

/** A node's report about itself. */
export interface Heartbeat extends OfNode {
  readonly kind: 'heartbeat'
  /** Null: the node only showed that it is alive, by a pong or another frame. */
  readonly load: NodeLoad | null
  /** Tasks that the node still knows. Null: the node sent no list. */
  readonly running: readonly string[] | null
  /**
   * How many `task.assign` frames the node had received on this connection when it measured its load. The registry adds
   * later assigns to the load and counts no assign twice.
   */
  readonly countedSeq: number | null
}

/** The node, task or pool that a command is about, for logs and measurements. */
export function subjectOf(command: Command): string {
  if (command.kind === 'submit') return command.task.taskId
  if (command.kind === 'yield') return command.demand
  if ('nodeId' in command) return command.nodeId
  if ('taskId' in command) return command.taskId
  return 'name' in command ? command.name : ''
}

/**
 * What the registry asks the effect runner to do. The effect runner sends frames, writes ends, looks tasks up and sets
 * timers in the order of the effects. It answers with commands.
 */
export type Effect =
  /** Send `welcome {epoch}`. `resumed`: the same instance came back and still holds its tasks. */
  | ({ readonly kind: 'welcome'; readonly resumed: boolean } & OfNode)
  /**
   * Send `error {code: 'superseded'}` and close 4409 to the connection of that epoch. With `instanceId`: to the
   * connection whose hello was just refused.
   */
  | ({ readonly kind: 'superseded'; readonly instanceId: string | null } & OfNode)
  /**
   * The registry does not know this connection: close it, so that the node connects again. The node lost its earlier
   * tasks.
   */
  | ({ readonly kind: 'unknownNode' } & OfNode)
  /** The registry forgot the node: drop its connection and its row. */
  | ({ readonly kind: 'nodeForgotten' } & OfNode)
  /** Send `drain`. */
  | ({ readonly kind: 'drainFrame' } & OfNode)
  /** A drained node no longer runs a task: it may be closed. */
  | ({ readonly kind: 'drained' } & OfNode)
  | Assign
  /** Send `task.cancel`. The slot stays taken until the node answers, or for `cancelGraceMs`. */
  | ({ readonly kind: 'cancelFrame' } & OfNode & OfAttempt)
  /** Send `task.stale`: the frame was about an attempt that this node does not hold. Attempt 0: any attempt. */
  | ({ readonly kind: 'stale' } & OfNode & OfAttempt)
  /**
   * A frame named a task that is not in the registry: the task ended, was never here, or belongs to another server.
   * Look it up. Answer `task.settled` if that attempt ended the task, nothing while the end is still being written,
   * and `task.stale` otherwise. Attempt 0: the node only lists the task as running. Then send the command `orphan`
   * too, because the node gets no new work before it.
   */
  | ({ readonly kind: 'unknownTask'; readonly said: string } & OfNode & OfAttempt)
  | Settled
  /**
   * This attempt is over and the task is not: the task left the registry, and its job must be handed back. The next
   * server that claims it submits it with a higher attempt. `isFree`: no attempt is spent, because the node moved to
   * another server.
   */
  | ({
      readonly kind: 'requeue'
      readonly nodeId: string | null
      readonly code: FaultCode
      readonly error: TaskError
      readonly afterMs: number
      readonly isFree?: boolean
    } & OfAttempt)
  /** A waiting task left the registry: hand its claim back for another server, without spending an attempt. */
  | ({ readonly kind: 'handBack' } & OfAttempt)
  /** The status of a task changed: inform its watchers. The effect `assign` stands for the status `assigned`. */
  | ({
      readonly kind: 'taskChanged'
      readonly status: 'waiting' | 'running'
      readonly nodeId: string | null
    } & OfAttempt)
  | ({ readonly kind: 'progress'; readonly percent: number | null; readonly note: string | null } & OfAttempt)
  /** Send `tick` at that instant or soon after. Replaces the earlier timer. */
  | { readonly kind: 'armTimer'; readonly at: number }
  /** Work is left: send `rebuildSlice` when the mailbox has time, within 50 ms. */
  | { readonly kind: 'moreWork' }
  /** An event for the log or the audit. */
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
 * The task ended; emitted exactly once. Write the end durably, and only then send `task.settled` to `nodeId`, the node
 * that reported the end (null: no node waits for it).
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

/** An event that the registry reports for the log. */
export type RegistryEvent =
  | ({ readonly name: 'node.ready'; readonly resumed: boolean } & OfNode)
  | ({ readonly name: 'node.suspect' | 'node.gone'; readonly reason: string } & OfNode)
  | ({ readonly name: 'node.superseded' } & OfNode)
  | ({ readonly name: 'slot.forced'; readonly nodeId: string } & OfAttempt)
  /** The lookup of the node's tasks timed out: the node gets work again. */
  | ({ readonly name: 'node.unanswered'; readonly taskCount: number } & OfNode)
  | { readonly name: 'node.held'; readonly nodeId: string; readonly taskId: string }
  | {
      readonly name: 'pools.rebuilt'
      readonly generation: number
      readonly nodeCount: number
      readonly poolCount: number
      readonly tookMs: number
    }
