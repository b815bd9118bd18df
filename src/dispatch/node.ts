/**
 * The records of dispatch: what a node offers, how loaded it is, what a task asks for, and how both are
 * shown. Plain data; every other file of this module, the wire and the stores use these words.
 */

/**
 * One requirement on a node. `where` holds when the service's tag list contains the value; a label without `in`,
 * `gte` and `lte` must only be there. The label `pool` is reserved: `{ label: 'pool', in: ['large'] }` asks for the
 * nodes of the pool defined under that name.
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

/** A service that a node offers: how many slots it has, and what it is good for. */
export interface ServiceOffer {
  readonly name: string
  readonly slots: number
  readonly tags: Readonly<Record<string, readonly string[]>>
}

/** Free words about a node. Numbers may be compared with `gte` and `lte`. */
export type Labels = Readonly<Record<string, string | number | boolean>>

/** How loaded a node says it is: fractions from 0 to 1, null for what it does not measure. */
export interface NodeLoad {
  readonly cpu: number | null
  readonly gpu: number | null
  readonly memory: number | null
}

/**
 * Where a node stands. A suspect one gets no new work and keeps what it has; a gone one has lost its tasks.
 *
 *   hello ─▶ ready ◀──hello of the same instance── suspect ─▶ gone
 *              └────socket closed, silence────────────▲
 */
export type NodeStatus = 'ready' | 'suspect' | 'gone'

/** Where a task stands. The last three are ends: a task reaches exactly one of them, once. */
export type TaskStatus = (typeof taskStatuses)[number]
export const taskStatuses = ['waiting', 'assigned', 'running', 'completed', 'failed', 'cancelled'] as const

/** How a task may end. */
export type TaskEnd = 'completed' | 'failed' | 'cancelled'

/** Why a task failed, as it is kept and shown. Dispatch's own codes: see `FaultCode`. */
export interface TaskError {
  readonly code: string
  readonly message: string
}

/** The codes that dispatch itself gives to the end of an attempt; a node's own codes stand beside them. */
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

/** A task as the registry sees it: what to place, never its payload. `attempt` is the job's attempt, its fence. */
export interface TaskSpec {
  readonly taskId: string
  /** The attempt that was claimed durably: 1 for the first; a next one is always higher. */
  readonly attempt: number
  readonly maxAttempts: number
  /** How often an attempt ended for nothing because its node went to another server. @default 0 */
  readonly moveCount?: number
  /** The node that had the attempt before: another one is taken if there is one. @default null */
  readonly shunned?: string | null
  readonly service: string
  /** What it asks for as one text, the same on every server: see `demandKind`. */
  readonly kind: string
  /** Slots by service, all of them on one node in one reservation. */
  readonly uses: Readonly<Record<string, number>>
  /** All of them must hold. */
  readonly requires: readonly Term[]
  /** Nodes for which all of these hold too are taken first while they are not much more loaded. */
  readonly prefers: readonly Term[]
  /** 0 to 9, higher first. */
  readonly priority: number
  readonly tenant: string
  /** Tasks of one session go to one node while it has free slots. */
  readonly session: string | null
  readonly submittedAt: number
  readonly deadlineAt: number | null
  /** Without progress for so long, the attempt is given up. */
  readonly idleMs: number | null
  /** False: the loss of its node ends it as failed, as does any failure. */
  readonly retryable: boolean
}

/** A node as readers see it. */
export interface NodeView {
  readonly nodeId: string
  readonly instanceId: string
  readonly epoch: number
  readonly status: NodeStatus
  /** The server that holds its socket and places its work; null: this one. */
  readonly via: string | null
  readonly draining: boolean
  readonly cordoned: boolean
  /** It reported more load than is allowed, or lists tasks whose slots are not known yet. */
  readonly overloaded: boolean
  readonly heldFor: string | null
  readonly services: readonly ServiceView[]
  readonly labels: Labels
  readonly load: NodeLoad
  readonly taskIds: readonly string[]
  readonly seenAt: number
  readonly joinedAt: number
}

/** A service of a node as readers see it. */
export interface ServiceView extends ServiceOffer {
  readonly used: number
  readonly cordoned: boolean
  /** The node said it is busy: no new work for this service before then. */
  readonly restsUntil: number | null
}

/** A task as readers see it. */
export interface TaskView {
  readonly taskId: string
  readonly attempt: number
  readonly status: 'waiting' | 'assigned' | 'running'
  readonly nodeId: string | null
  readonly spec: TaskSpec
  readonly since: number
}

/** A pool as readers see it: by signature when `name` is null, by rule otherwise. */
export interface PoolView {
  readonly name: string | null
  readonly signature: string | null
  readonly requires: readonly Term[]
  readonly nodeCount: number
}
