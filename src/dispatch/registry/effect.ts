/**
 * What the registry wants done. It does nothing itself: whoever runs it sends frames, writes ends, looks
 * tasks up and sets timers, in the order of the effects, and comes back with commands.
 */
import type { FaultCode, TaskEnd, TaskError } from '../node.ts'

/** An effect, told apart by `kind`. */
export type Effect =
  /** Send `welcome {epoch}`. `resumed`: the same instance came back, its tasks are still its own. */
  | { readonly kind: 'welcome'; readonly nodeId: string; readonly epoch: number; readonly resumed: boolean }
  /**
   * Send `error {code: 'superseded'}` and close 4409 to the connection of that epoch; with `instanceId`, the one that
   * just said hello and was refused.
   */
  | {
      readonly kind: 'superseded'
      readonly nodeId: string
      readonly epoch: number
      readonly instanceId: string | null
    }
  /**
   * The registry does not know this connection, or gave it up: close it, so that the node says hello again. Its tasks of
   * before are no longer its own.
   */
  | { readonly kind: 'unknownNode'; readonly nodeId: string; readonly epoch: number }
  /** The node is out of the registry: drop what is kept for it. */
  | { readonly kind: 'nodeForgotten'; readonly nodeId: string; readonly epoch: number }
  /** Send `drain`. */
  | { readonly kind: 'drainFrame'; readonly nodeId: string; readonly epoch: number }
  /** A drained node runs nothing any more: it may be closed. */
  | { readonly kind: 'drained'; readonly nodeId: string; readonly epoch: number }
  /** Send `task.assign`. `seq` counts the assigns of that connection from 1, as `countedSeq` does. */
  | Assign
  /** Send `task.cancel`. The slot stays taken until the node answers, or for `cancelGraceMs`. */
  | ({ readonly kind: 'cancelFrame'; readonly nodeId: string; readonly epoch: number } & Attempted)
  /** Send `task.stale`: a word about an attempt that is not, or no longer, this node's. Attempt 0: any attempt. */
  | ({ readonly kind: 'stale'; readonly nodeId: string; readonly epoch: number } & Attempted)
  /**
   * A word about a task that is not in the registry: it ended, was never here, or belongs to another server. Look it up:
   * answer `task.settled` when that attempt is the one that ended it, `task.stale` otherwise, and nothing while its
   * end is still being written. Attempt 0: the node only lists it as running; then `orphan` must come back too, for the
   * node gets no new work before.
   */
  | ({
      readonly kind: 'unknownTask'
      readonly nodeId: string
      readonly epoch: number
      readonly said: string
    } & Attempted)
  /**
   * The task ended, told exactly once: write it durably, then send `task.settled` to `nodeId` (null: no node waits
   * for it). Until that is written, `task.settled` must not be sent.
   */
  | Settled
  /**
   * This attempt is over and the task is not: hand the job back without delay and claim it anew; the claim comes back
   * as `submit` with a higher attempt, or `forget` when another server has it.
   */
  | ({
      readonly kind: 'requeue'
      readonly nodeId: string | null
      readonly code: FaultCode
      readonly error: TaskError
      readonly afterMs: number
      /** No attempt is spent: its node works, and is another server's now. */
      readonly isFree?: boolean
    } & Attempted)
  /** It waited here and is out of the registry: give the claim back without spending an attempt, for another server. */
  | ({ readonly kind: 'handBack' } & Attempted)
  /** A task moved: tell who watches. That it was assigned, `assign` says. */
  | ({
      readonly kind: 'taskChanged'
      readonly status: 'waiting' | 'running'
      readonly nodeId: string | null
    } & Attempted)
  | ({
      readonly kind: 'progress'
      readonly percent: number | null
      readonly note: string | null
    } & Attempted)
  /** Too many wait. Nothing is kept of it: tell the caller to come again. */
  | ({ readonly kind: 'refused'; readonly reason: 'too_many'; readonly retryAfterMs: number } & Attempted)
  /** These pages of the snapshot changed: read them with `registry.page(number)`. */
  | { readonly kind: 'publish'; readonly pages: readonly number[]; readonly version: number }
  /** Send `tick` at that instant or soon after; replaces the one armed before. */
  | { readonly kind: 'armTimer'; readonly at: number }
  /** Work is left: send `rebuildSlice` when there is time, at the latest in 50 ms. */
  | { readonly kind: 'moreWork' }
  /** Something worth a line in the log or the audit. */
  | { readonly kind: 'event'; readonly event: RegistryEvent }

/** Names of the effects. */
export type EffectKind = Effect['kind']

/** The attempt that an effect is about. */
export interface Attempted {
  readonly taskId: string
  readonly attempt: number
}

/** A task goes to a node. */
export interface Assign extends Attempted {
  readonly kind: 'assign'
  readonly nodeId: string
  readonly epoch: number
  readonly seq: number
  readonly service: string
  readonly deadlineAt: number | null
}

/** A task ended. */
export interface Settled extends Attempted {
  readonly kind: 'settled'
  readonly end: TaskEnd
  /** Meaningful when completed. */
  readonly output: unknown
  /** Null when completed. */
  readonly error: TaskError | null
  /** The node whose word ended it. */
  readonly nodeId: string | null
  readonly epoch: number
}

/** What the registry finds worth telling. */
export type RegistryEvent =
  | {
      readonly name: 'node.ready'
      readonly nodeId: string
      readonly epoch: number
      readonly resumed: boolean
    }
  | {
      readonly name: 'node.suspect' | 'node.gone'
      readonly nodeId: string
      readonly epoch: number
      readonly reason: string
    }
  | { readonly name: 'node.superseded'; readonly nodeId: string; readonly epoch: number }
  | {
      readonly name: 'slot.forced'
      readonly nodeId: string
      readonly taskId: string
      readonly attempt: number
    }
  /** The lookup of these tasks timed out: the node gets work again. */
  | {
      readonly name: 'node.unanswered'
      readonly nodeId: string
      readonly epoch: number
      readonly taskCount: number
    }
  | { readonly name: 'node.held'; readonly nodeId: string; readonly taskId: string }
  | {
      readonly name: 'pools.rebuilt'
      readonly generation: number
      readonly nodeCount: number
      readonly poolCount: number
      readonly tookMs: number
    }
