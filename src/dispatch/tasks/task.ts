/** Tasks as their users see them, and the methods of dispatch. */
import type { Duration } from '../../core/duration.ts'
import type { NodeConnector } from '../connections/node-connection.ts'
import type { Tally } from '../effect-runner.ts'
import type { Explanation } from '../explain-task.ts'
import type { NodeView, PoolView, TaskError, TaskSpec, TaskStatus, Term } from '../node.ts'
import type { RegistryCounts } from '../registry/registry.ts'
import type { ServiceCounts, ServiceSight } from '../service-counts.ts'

/** A task to submit. Only `service` is required. */
export interface SubmitOptions {
  /** The service that the node uses for the task. */
  readonly service: string
  /** Slots by service, all on one node in one reservation; at most 16 services. @default { [service]: 1 } */
  readonly uses?: Readonly<Record<string, number>> | undefined
  /** All terms must hold for the node; at most 64 terms, 4 levels deep. @default [] */
  readonly requires?: readonly Term[] | undefined
  /** Nodes for which these terms hold too are preferred. @default [] */
  readonly prefers?: readonly Term[] | undefined
  /** The payload for the node: any JSON value up to 256 KiB. @default null */
  readonly payload?: unknown
  /** 0 to 9, higher first. @default 5 */
  readonly priority?: number | undefined
  /** Waiting tasks are served fairly between tenants. @default 'default' */
  readonly tenant?: string | undefined
  /** Tasks of one session go to one node while it has free slots. @default none */
  readonly session?: string | null | undefined
  /** The time limit from submit to end; then the task fails with `deadline_exceeded`. @default none */
  readonly deadlineMs?: Duration | null | undefined
  /** An attempt without progress for this time is given up. @default none */
  readonly idleMs?: Duration | null | undefined
  /** False: the loss of its node, or any failure, ends the task. @default true */
  readonly retryable?: boolean | undefined
  /** Remembered for 24 hours: a second submit with the key answers the first task. @default none */
  readonly idempotencyKey?: string | null | undefined
}

/** The answer to a submit. */
export interface Submitted {
  readonly taskId: string
  readonly status: TaskStatus
  /** The idempotency key was known: this is the task of an earlier submit. */
  readonly duplicate: boolean
}

/** A task. Instants are epoch milliseconds of the store's clock. */
export interface Task {
  readonly taskId: string
  /**
   * The status that this process knows. Only the server of the task's node shows `assigned`. A task of another server
   * shows `waiting` until it has run for a second or two, or its node has sent progress; then it shows `running`.
   */
  readonly status: TaskStatus
  /** 0 before the first attempt. It rises with each attempt. */
  readonly attempt: number
  readonly nodeId: string | null
  readonly service: string
  /** The output of the node; null until the task completed. */
  readonly output: unknown
  readonly error: TaskError | null
  readonly submittedAt: number
  readonly finishedAt: number | null
}

/** The last progress that the node of a task reported. */
export interface TaskProgress {
  /** 0 to 100. */
  readonly percent: number | null
  readonly note: string | null
  readonly at: number
}

/** A task with its progress and its submit options. */
export interface FoundTask extends Task, TaskTerms {
  /**
   * Null unless the task runs and its node sent progress in this attempt. At another server up to about a second old.
   */
  readonly progress: TaskProgress | null
  readonly payload: unknown
}

/** The terms of a submit. */
export interface TaskTerms
  extends Pick<
    TaskSpec,
    'service' | 'uses' | 'requires' | 'prefers' | 'priority' | 'tenant' | 'session' | 'idleMs' | 'retryable'
  > {
  /** The time limit from submit to end. */
  readonly deadlineMs: number | null
}

/** Which tasks to list. */
export interface ListTasksOptions {
  /**
   * A task that has just begun to run at another server counts as waiting for a second or two. `assigned` lists the
   * tasks that this process assigned. @default all
   */
  readonly status?: TaskStatus | undefined
  /** 1 to 500. @default 50 */
  readonly limit?: number | undefined
  /** The cursor of the page before. @default the newest task */
  readonly cursor?: string | undefined
}

/** An event of `watch`. The first has the present status. `completed`, `failed` or `cancelled` is the last. */
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

/** Counts of this dispatcher: the tasks that it submitted and ended, and the sizes of its parts. */
export interface DispatchCounts extends RegistryCounts, Readonly<Tally> {
  /** The jobs that this process holds, and the ends that are not written yet. */
  readonly held: number
  readonly unwritten: number
  readonly connections: number
}

/** The part of a node that `cordon` closes and `uncordon` opens. */
export interface CordonOptions {
  /** One service of the node. @default the whole node */
  readonly service?: string | null | undefined
}

/** A page of tasks, newest first. */
export interface TaskPage {
  readonly items: readonly Task[]
  readonly cursor: string | null
}

/** The methods of dispatch. Submitting and reading need no `start`; nodes and placing do. */
export interface Dispatch extends AsyncDisposable {
  /**
   * Writes the task durably, then answers. Throws `invalid_argument`, `too_large`, `too_many` (details.retryAfterMs),
   * `draining`.
   */
  submit(options: SubmitOptions): Promise<Submitted>
  task(taskId: string): Promise<FoundTask | undefined>
  /** Lists tasks, newest first. A short page is the last one only if its cursor is null. */
  tasks(options?: ListTasksOptions): Promise<TaskPage>
  /**
   * Watches a task from its present status to its end. A slow caller misses progress. Throws `not_found`.
   */
  watch(taskId: string, options?: { readonly signal?: AbortSignal | undefined }): AsyncIterable<TaskEvent>
  /** Cancels a task unless it has ended. Answers its present status. Throws `not_found`. */
  cancel(taskId: string, options?: { readonly reason?: string | undefined }): Promise<Task>
  /** Explains why a task waits, and which change would place it. Throws `not_found`. */
  explain(taskId: string): Promise<Explanation>
  /** Reads the cluster state, for a box without `start`: `nodes` and `pools` then show this reading. */
  look(): Promise<void>
  /** All nodes of all servers that share the fleet, slightly delayed. Before `start`: as last read. */
  nodes(): readonly NodeView[]
  node(nodeId: string): NodeView | undefined
  /**
   * Gives the node no new work, at any server. Its tasks may end there until the deadline; then they continue on other
   * nodes. Throws `not_found`.
   */
  drain(
    nodeId: string,
    options?: { readonly on?: boolean | undefined; readonly deadlineMs?: Duration | null | undefined },
  ): Promise<NodeView>
  /** Closes a node, or one service of it, for new work, at every server, until `uncordon`. Throws `not_found`. */
  cordon(nodeId: string, options?: CordonOptions): Promise<void>
  /**
   * Lifts a cordon, even if the node is gone. Throws `not_found` when neither the cordon nor the node is known.
   */
  uncordon(nodeId: string, options?: CordonOptions): Promise<void>
  pools(): readonly PoolView[]
  /** Defines a pool permanently, for all servers. */
  definePool(pool: { readonly name: string; readonly requires: readonly Term[] }): Promise<void>
  /** Removes a pool. False: no pool has that name. */
  removePool(name: string): Promise<boolean>
  /** Connects the nodes of sockets. */
  readonly connections: NodeConnector
  counts(): DispatchCounts
  /** By service: the waiting tasks of this process, and the slots of its connected nodes. */
  serviceCounts(): readonly ServiceCounts[]
  /** One service at all servers: the waiting tasks, as each server last reported, and the slots of all nodes. */
  service(service: string): ServiceSight
  /** The dispatcher places tasks and can reach the store. */
  readonly ready: boolean
  /** Begins to claim and place tasks. */
  start(): void
  /**
   * Claims and assigns no more tasks. Running tasks may end within `graceMs` (10,000 by default). The others are handed
   * back without spending an attempt.
   */
  stop(options?: { readonly graceMs?: number }): Promise<void>
}
