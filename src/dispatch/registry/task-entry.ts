/** A task in the registry, and the lease that its attempt has on a node. */

import { createTimer, type Timer } from '../../core/position-heap.ts'
import type { Demand, Shape } from '../matching/demand.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import type { TaskSpec, TaskView } from '../node.ts'
import type { RegistryState } from './registry-state.ts'
import type { WaitEntry } from './wait-queue.ts'

/**
 * Slots of one node, held by one attempt. It outlives its task when that was cancelled or given up: until the node
 * says so too, the slots are not free (`task` is null then).
 */
export interface Lease {
  /** The attempt's name, as a node's words about it have it. */
  readonly key: string
  readonly taskId: string
  readonly attempt: number
  readonly node: RegistryNode
  /** The node's epoch when it was made: a later instance of the node knows nothing of it. */
  readonly epoch: number
  readonly shape: Shape
  /** Its number among the assigns of the connection; Infinity until it is sent. */
  seq: number
  task: TaskEntry | null
  grace: LeaseTimer | null
}

/** Ends the wait for a node's answer about a cancelled attempt. */
export type LeaseTimer = Timer<'grace', Lease>

/** The name of an attempt. */
export function attemptKey(taskId: string, attempt: number): string {
  return `${taskId}#${attempt}`
}

/** A task that has not ended, as this server knows it. */
export class TaskEntry {
  spec: TaskSpec
  demand: Demand
  status: TaskView['status'] = 'waiting'
  lease: Lease | null = null
  /** Its entry in the wait queue while it waits. */
  entry: WaitEntry | null = null
  /** The node that is kept free for it. */
  holds: RegistryNode | null = null
  /** One timer for all its bounds, set to the nearest. */
  readonly timer: Timer<'task', TaskEntry>
  /** Since when it has its status. */
  since: number
  /** The attempt must be accepted, or show progress, by then. */
  answerBy: number = Number.POSITIVE_INFINITY
  rejects = 0

  constructor(spec: TaskSpec, demand: Demand, now: number) {
    this.spec = spec
    this.demand = demand
    this.since = now
    this.timer = createTimer('task', this)
  }

  view(): TaskView {
    return {
      taskId: this.spec.taskId,
      attempt: this.spec.attempt,
      status: this.status,
      nodeId: this.lease?.node.nodeId ?? null,
      spec: this.spec,
      since: this.since,
    }
  }
}

/** Sets the task's one timer to the nearest of its bounds. */
export function setTaskTimer(state: RegistryState, task: TaskEntry): void {
  const at = Math.min(task.spec.deadlineAt ?? Number.POSITIVE_INFINITY, task.answerBy)
  if (at === Number.POSITIVE_INFINITY) state.timers.clear(task.timer)
  else state.timers.set(task.timer, at)
}
