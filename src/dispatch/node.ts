/**
 * The records of dispatch: the offer and the load of a node, the requirements of a task, and the views of both. They
 * are plain data. The other files of this module, the wire and the stores use these terms.
 */

/**
 * One requirement on a node. `where` holds if the service's tag list contains the value. A label without `in`, `gte`
 * and `lte` must only exist. The label `pool` is reserved: `{ label: 'pool', in: ['large'] }` requires a node of the
 * pool that is defined under that name.
 */
export type Term =
  | { readonly service: string; readonly where?: Readonly<Record<string, string>> }
  | {
      readonly label: string
      readonly in?: readonly string[]
      readonly gte?: number
      readonly lte?: number
    }
  | { readonly any: readonly Term[] }
  | { readonly not: Term }

/** A service that a node offers, with its slots and tags. */
export interface ServiceOffer {
  readonly name: string
  readonly slots: number
  readonly tags: Readonly<Record<string, readonly string[]>>
}

/** Labels of a node. Numbers can be compared with `gte` and `lte`. */
export type Labels = Readonly<Record<string, string | number | boolean>>

/** The load that a node reports: fractions from 0 to 1; null for values that it does not measure. */
export interface NodeLoad {
  readonly cpu: number | null
  readonly gpu: number | null
  readonly memory: number | null
}

/**
 * The status of a node. A suspect node gets no new work and keeps its tasks; a gone node has lost its tasks.
 *
 *   hello ─▶ ready ◀──hello of the same instance── suspect ─▶ gone
 *              └────socket closed, silence────────────▲
 */
export type NodeStatus = 'ready' | 'suspect' | 'gone'

/** The status of a task. The last three are ends: a task reaches exactly one of them, once. */
export type TaskStatus = (typeof taskStatuses)[number]
export const taskStatuses = ['waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled'] as const

/** How a task may end. */
export type TaskEnd = 'completed' | 'failed' | 'cancelled'

/** Why a task failed. For the codes of dispatch itself, see `FaultCode`. */
export interface TaskError {
  readonly code: string
  readonly message: string
}

/** The codes that dispatch itself gives to the end of an attempt. Nodes may send other codes. */
export type FaultCode =
  | 'node_lost'
  | 'superseded'
  | 'moved'
  | 'forgotten'
  | 'accept_timeout'
  | 'idle_timeout'
  | 'rejected'
  | 'drained'
  | 'lease_lost'
  | 'deadline_exceeded'
  | 'poison'
  | 'cancelled'
  | 'failed'

/** A task as the registry sees it, without its payload. `attempt` is the job's attempt and serves as fencing number. */
export interface TaskSpec {
  readonly taskId: string
  /** The attempt of the claim: 1 for the first; a later one is always higher. */
  readonly attempt: number
  readonly maxAttempts: number
  /** How many attempts ended because their node moved to another server. @default 0 */
  readonly moveCount?: number
  /** The node of the attempt before: another node is preferred. @default null */
  readonly shunned?: string | null
  readonly service: string
  /** The requirements as one text, the same on every server: see `demandKind`. */
  readonly kind: string
  /** Slots by service, all of them on one node in one reservation. */
  readonly uses: Readonly<Record<string, number>>
  /** All terms must hold. */
  readonly requires: readonly Term[]
  /** Nodes for which all these terms hold too are preferred while they are not much more loaded. */
  readonly prefers: readonly Term[]
  /** 0 to 9, higher first. */
  readonly priority: number
  readonly tenant: string
  /** Tasks of one session go to one node while it has free slots. */
  readonly session: string | null
  readonly submittedAt: number
  readonly deadlineAt: number | null
  /** An attempt without progress for this time is given up. */
  readonly idleMs: number | null
  /** False: the loss of its node, or any failure, ends the task as failed. */
  readonly retryable: boolean
}

/** The view of a node for readers. */
export interface NodeView {
  readonly nodeId: string
  readonly instanceId: string
  readonly epoch: number
  readonly status: NodeStatus
  /** The server that holds the node's socket and places its work; null: this server. */
  readonly via: string | null
  readonly draining: boolean
  readonly cordoned: boolean
  /** The node reported too much load, or lists tasks whose slots are not known yet. */
  readonly overloaded: boolean
  readonly heldFor: string | null
  readonly services: readonly ServiceView[]
  readonly labels: Labels
  readonly load: NodeLoad
  readonly taskIds: readonly string[]
  readonly seenAt: number
  readonly joinedAt: number
}

/** The view of a node's service for readers. */
export interface ServiceView extends ServiceOffer {
  readonly used: number
  readonly cordoned: boolean
  /** The node was busy: it gets no new work for this service before this time. */
  readonly restsUntil: number | null
}

/** The view of a task for readers. */
export interface TaskView {
  readonly taskId: string
  readonly attempt: number
  readonly status: 'waiting' | 'assigned' | 'running'
  readonly nodeId: string | null
  readonly spec: TaskSpec
  readonly since: number
}

/** The view of a pool for readers: by signature when `name` is null, by rule otherwise. */
export interface PoolView {
  readonly name: string | null
  readonly signature: string | null
  readonly requires: readonly Term[]
  readonly nodeCount: number
}
