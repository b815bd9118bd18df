/** Tasks as their users see them, and the verbs of dispatch. */
import type { Duration } from '../../core/duration.ts'
import type { NodeConnector } from '../connections/node-connection.ts'
import type { Tally } from '../effect-runner.ts'
import type { Explanation } from '../explain-task.ts'
import type { NodeView, PoolView, TaskError, TaskSpec, TaskStatus, Term } from '../node.ts'
import type { RegistryCounts } from '../registry/registry.ts'
import type { ServiceCounts, ServiceSight } from '../service-counts.ts'

/** What to do, and where it may be done. Only `service` must be given. */
export interface SubmitOptions {
  /** The service that the node is to use. */
  readonly service: string
  /** Slots by service, all on one node in one reservation; at most 16 services. @default { [service]: 1 } */
  readonly uses?: Readonly<Record<string, number>> | undefined
  /** All of them must hold; at most 64 terms, 4 levels deep. @default [] */
  readonly requires?: readonly Term[] | undefined
  /** Nodes for which these hold too are taken first. @default [] */
  readonly prefers?: readonly Term[] | undefined
  /** What the node gets: any JSON value up to 256 KiB. @default null */
  readonly payload?: unknown
  /** 0 to 9, higher first. @default 5 */
  readonly priority?: number | undefined
  /** Tenants share the fleet fairly. @default 'default' */
  readonly tenant?: string | undefined
  /** Tasks of one session go to one node while it has free slots. @default none */
  readonly session?: string | null | undefined
  /** From submit to end; then it fails with `deadline_exceeded`. @default none */
  readonly deadlineMs?: Duration | null | undefined
  /** Without progress for so long, the attempt is given up. @default none */
  readonly idleMs?: Duration | null | undefined
  /** False: the loss of its node, or any failure, ends it. @default true */
  readonly retryable?: boolean | undefined
  /** Remembered for 24 hours: the same key answers the task that it made first. @default none */
  readonly idempotencyKey?: string | null | undefined
}

/** What a submit came to. */
export interface Submitted {
  readonly taskId: string
  readonly status: TaskStatus
  /** The key was known: this is the task that it made before. */
  readonly duplicate: boolean
}

/** A task. Instants are epoch milliseconds of the store's clock. */
export interface Task {
  readonly taskId: string
  /**
   * As far as this process knows. Only the server of its node shows `assigned`. A task that another server holds is
   * `running` once it has run for a second or two, or has sent progress, and `waiting` until then.
   */
  readonly status: TaskStatus
  /** 0 before the first one; rises with each, and never falls. */
  readonly attempt: number
  readonly nodeId: string | null
  readonly service: string
  /** What the node answered; null until it completed. */
  readonly output: unknown
  readonly error: TaskError | null
  readonly submittedAt: number
  readonly finishedAt: number | null
}

/** How far a task is, as its node last said. */
export interface TaskProgress {
  /** 0 to 100. */
  readonly percent: number | null
  readonly note: string | null
  readonly at: number
}

/** A task, how far it is, and what it was submitted with. */
export interface FoundTask extends Task, TaskTerms {
  /** Null unless it runs and its node has sent progress in this attempt. At another server up to about a second old. */
  readonly progress: TaskProgress | null
  readonly payload: unknown
}

/** What a task asks for. */
export interface TaskTerms
  extends Pick<
    TaskSpec,
    'service' | 'uses' | 'requires' | 'prefers' | 'priority' | 'tenant' | 'session' | 'idleMs' | 'retryable'
  > {
  /** From submit to end. */
  readonly deadlineMs: number | null
}

/** Which tasks to list. */
export interface ListTasksOptions {
  /**
   * What has just begun to run at another server counts as waiting for a second or two; `assigned` are those that this
   * process has given out. @default all
   */
  readonly status?: TaskStatus | undefined
  /** 1 to 500. @default 50 */
  readonly limit?: number | undefined
  /** Where the page before ended. @default at the newest */
  readonly cursor?: string | undefined
}

/** An event of `watch`. The first is the present state; one of the last three is the last. */
export type TaskEvent = {
  readonly taskId: string
  readonly attempt: number
  readonly at: number
} & (
  | { readonly status: 'waiting' }
  | { readonly status: 'assigned' | 'running'; readonly nodeId: string | null }
  | {
      readonly status: 'progress'
      readonly nodeId: string | null
      readonly percent: number | null
      readonly note: string | null
    }
  | { readonly status: 'completed'; readonly nodeId: string | null; readonly output: unknown }
  | { readonly status: 'failed' | 'cancelled'; readonly nodeId: string | null; readonly error: TaskError }
)

/** How many tasks came and ended here since it was made, and how much waits. */
export interface DispatchCounts extends RegistryCounts, Readonly<Tally> {
  /** Jobs that this process holds, and ends that are not written yet. */
  readonly held: number
  readonly unwritten: number
  readonly connections: number
}

/** What `cordon` closes and `uncordon` opens. */
export interface CordonOptions {
  /** One service of the node. @default the whole node */
  readonly service?: string | null | undefined
}

/** A page of tasks, newest first. */
export interface TaskPage {
  readonly items: readonly Task[]
  readonly cursor: string | null
}

/** The verbs of dispatch. Submitting and asking need no `start`; nodes and placing do. */
export interface Dispatch extends AsyncDisposable {
  /**
   * Writes the task durably, then answers. Throws `invalid_argument`, `too_large`, `too_many` (details.retryAfterMs),
   * `draining`.
   */
  submit(options: SubmitOptions): Promise<Submitted>
  task(taskId: string): Promise<FoundTask | undefined>
  /** Newest first. A page may be short and not the last: its cursor says. */
  tasks(options?: ListTasksOptions): Promise<TaskPage>
  /**
   * From the present state to the end. Throws `not_found`. Progress that the caller did not take in time is skipped.
   */
  watch(taskId: string, options?: { readonly signal?: AbortSignal | undefined }): AsyncIterable<TaskEvent>
  /** Ends it unless it ended before; answers how it stands. Throws `not_found`. */
  cancel(taskId: string, options?: { readonly reason?: string | undefined }): Promise<Task>
  /** Why it waits, and what would wake it. Throws `not_found`. */
  explain(taskId: string): Promise<Explanation>
  /** Reads the cluster state, for a box that only looks: `nodes` and `pools` are as of then. */
  look(): Promise<void>
  /** All nodes of all servers that share the fleet, at most a little old. Before `start`: as last read. */
  nodes(): readonly NodeView[]
  node(nodeId: string): NodeView | undefined
  /**
   * No new work for the node, on whichever server it is; what it runs ends, by the deadline elsewhere. Throws
   * `not_found`.
   */
  drain(
    nodeId: string,
    options?: { readonly on?: boolean | undefined; readonly deadlineMs?: Duration | null | undefined },
  ): Promise<NodeView>
  /** Closes a node, or one service of it, for new work, at every server, until `uncordon`. Throws `not_found`. */
  cordon(nodeId: string, options?: CordonOptions): Promise<void>
  /**
   * Opens what `cordon` closed, also when the node is gone. Throws `not_found` when neither cordon nor node is known.
   */
  uncordon(nodeId: string, options?: CordonOptions): Promise<void>
  pools(): readonly PoolView[]
  /** For every server, and for good. */
  definePool(pool: { readonly name: string; readonly requires: readonly Term[] }): Promise<void>
  /** False: there was none of that name. */
  removePool(name: string): Promise<boolean>
  /** Where sockets bring their nodes. */
  readonly connections: NodeConnector
  counts(): DispatchCounts
  /** By service: what waits in this process, and the slots of the nodes that are connected to it. */
  serviceCounts(): readonly ServiceCounts[]
  /** One service at all servers: what waits there, by their last word, and the slots of all nodes. */
  service(service: string): ServiceSight
  /** It places tasks, and its claims go through. */
  readonly ready: boolean
  /** Begins to claim tasks and to place them. */
  start(): void
  /**
   * Takes no more tasks and assigns none; running tasks may end within `graceMs` (10,000 by default). The rest is
   * handed back without spending an attempt.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}
