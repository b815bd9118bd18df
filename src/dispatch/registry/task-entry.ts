/** A task in the registry, and the lease that its attempt has on a node. */

import { createTimer, type Timer } from '../../core/position-heap.ts'
import type { Demand, Shape } from '../matching/demand.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import type { TaskSpec, TaskView } from '../node.ts'
import type { RegistryState } from './registry-state.ts'
import type { WaitEntry } from './wait-queue.ts'

/**
 * Slots of one node, held by one attempt. If the task is cancelled or given up, the lease stays with `task` null: the
 * slots become free only when the node has stopped the attempt, or after `cancelGraceMs`.
 */
export interface Lease {
  /** The name of the attempt: see `attemptKey`. */
  readonly key: string
  readonly taskId: string
  readonly attempt: number
  readonly node: RegistryNode
  /** The node's epoch when the lease began: a later instance of the node does not know the attempt. */
  readonly epoch: number
  readonly shape: Shape
  /** The number of its assign on the connection; Infinity until the assign is sent. */
  seq: number
  task: TaskEntry | null
  grace: LeaseTimer | null
}

/** Limits the wait for a node's answer about a cancelled attempt. */
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
  /** The node that is kept free for this task. */
  heldNode: RegistryNode | null = null
  /** One timer for all time limits of the task, set to the nearest. */
  readonly timer: Timer<'task', TaskEntry>
  /** When the task got its status. */
  since: number
  /** By this time the node must accept the attempt, or show progress. */
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

/** Sets the task's timer to the nearest of its time limits. */
export function setTaskTimer(state: RegistryState, task: TaskEntry): void {
  const at = Math.min(task.spec.deadlineAt ?? Number.POSITIVE_INFINITY, task.answerBy)
  if (at === Number.POSITIVE_INFINITY) state.timers.clear(task.timer)
  else state.timers.set(task.timer, at)
}
