/**
 * Tasks are submitted, cancelled, run out of time, and end. Only `settle` reports an end. It removes the task from the
 * registry first, so a task ends once. A lease outlives its task until the node has stopped, or for `cancelGraceMs`.
 */

import { createTimer } from '../../core/position-heap.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import type { FaultCode, TaskEnd, TaskError } from '../node.ts'
import type { CommandOf } from './command.ts'
import { enterQueue, leaveQueue, place } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import { type Lease, setTaskTimer, TaskEntry } from './task-entry.ts'

/** The node that reported the end of a task; `nodeId` is null if no node did. */
export interface Reporter {
  readonly nodeId: string | null
  readonly epoch: number
}

/** The attempt number in frames about a task that a node only lists: it stands for any attempt. */
export const orphanAttempt = 0

/** So many times a task loses no attempt when its node moves to another server. The limit ends endless moves. */
const maxMoves = 20
const noNode: Reporter = { nodeId: null, epoch: 0 }

/** Takes a task out of the registry without reporting an end. */
export function drop(state: RegistryState, task: TaskEntry): void {
  leaveQueue(state, task)
  withdraw(state, task)
  state.timers.clear(task.timer)
  if (state.tasks.get(task.spec.taskId) === task) state.tasks.delete(task.spec.taskId)
  task.demand.taskCount -= 1
}

/** Ends a task. */
export function settle(
  state: RegistryState,
  task: TaskEntry,
  end: TaskEnd,
  { output = null, error = null, by = noNode }: { output?: unknown; error?: TaskError | null; by?: Reporter },
): void {
  const { taskId, attempt } = task.spec
  drop(state, task)
  state.emit({ kind: 'settled', taskId, attempt, end, output, error, nodeId: by.nodeId, epoch: by.epoch })
}

/** Ends an attempt without a result. If the task is retryable and has an attempt left, its job is handed back. */
export function endAttempt(
  state: RegistryState,
  task: TaskEntry,
  code: FaultCode,
  error: TaskError,
  { by = noNode, afterMs = 0 }: { by?: Reporter; afterMs?: number } = {},
): void {
  const { taskId, attempt, maxAttempts, retryable, moveCount = 0 } = task.spec
  const isFree = code === 'moved' && moveCount < maxMoves
  if (!retryable) {
    settle(state, task, 'failed', { error, by })
    return
  }
  if (attempt >= maxAttempts && !isFree) {
    const message = `All ${maxAttempts} attempts of task "${taskId}" failed, the last one with ${error.code}: ${error.message}`
    settle(state, task, 'failed', { error: { code: 'poison', message }, by })
    return
  }
  const nodeId = by.nodeId ?? task.lease?.node.nodeId ?? null
  drop(state, task)
  const free = isFree ? { isFree } : {}
  state.emit({ kind: 'requeue', taskId, attempt, nodeId, code, error, afterMs, ...free })
}

/** Takes a task from its node, if it has one, and asks the node to stop. */
function withdraw(state: RegistryState, task: TaskEntry): void {
  const { lease } = task
  task.lease = null
  if (lease === null) return
  lease.task = null
  linger(state, lease)
}

/** Keeps the slots of a lease without a task until the node has stopped it, or for `cancelGraceMs`. */
export function linger(state: RegistryState, lease: Lease): void {
  const { node, taskId, attempt } = lease
  if (node.leases.get(lease.key) !== lease) return
  lease.grace = createTimer('grace', lease)
  state.timers.set(lease.grace, state.now + state.policy.cancelGraceMs)
  // An orphan task has no known attempt to cancel: the answer to its lookup tells the node to stop.
  if (attempt === orphanAttempt) return
  state.emit({ kind: 'cancelFrame', nodeId: node.nodeId, epoch: node.epoch, taskId, attempt })
}

/** Frees the slots of a lease. A second call has no effect. */
export function releaseLease(state: RegistryState, lease: Lease): void {
  const { node } = lease
  if (lease.grace !== null) state.timers.clear(lease.grace)
  if (!node.giveBack(lease)) return
  state.freed(node)
  reportDrained(state, node)
}

/** Frees the slots of a lease whose node did not answer a cancel in time. */
export function forceRelease(state: RegistryState, lease: Lease): void {
  const { node, taskId, attempt } = lease
  state.report({ name: 'slot.forced', nodeId: node.nodeId, taskId, attempt })
  // The node may continue to list the task. That alone does not take the slots again.
  node.foreignTasks.end(taskId, node.totalSlots)
  releaseLease(state, lease)
}

/** Removes all leases of a lost node or instance. The next slices end their attempts. */
export function voidLeases(state: RegistryState, node: RegistryNode, code: FaultCode, message: string): void {
  for (const lease of node.leases.values()) state.lost.push({ lease, code, message })
  node.leases = new Map()
  node.recount()
}

/** Reports a draining node that no longer runs a task. */
export function reportDrained(state: RegistryState, node: RegistryNode): void {
  const { nodeId, epoch } = node
  const isIdle = node.leases.size === 0 && node.foreignTasks.pending.size === 0
  if (node.draining && isIdle) state.emit({ kind: 'drained', nodeId, epoch })
}

/** Takes in a task, or its next attempt. */
export function submit(state: RegistryState, { task: spec }: CommandOf<'submit'>): void {
  const { taskId, attempt, deadlineAt } = spec
  const known = state.tasks.get(taskId)
  if (known !== undefined && attempt <= known.spec.attempt) return
  const task = new TaskEntry(spec, state.demands.of(spec), state.now)
  task.demand.taskCount += 1
  // A higher attempt proves that the claim of the older one is over, even if this server did not know.
  if (known !== undefined) drop(state, known)
  state.tasks.set(taskId, task)
  if (deadlineAt !== null && deadlineAt <= state.now) {
    settleLate(state, task)
  } else if (!place(state, task)) {
    enterQueue(state, task)
  }
}

/** Cancels a task. Its slots become free when its node has stopped it. */
export function cancel(state: RegistryState, { taskId, reason }: CommandOf<'cancel'>): void {
  const task = state.tasks.get(taskId)
  if (task === undefined) return
  const message = reason ?? 'The task was cancelled.'
  settle(state, task, 'cancelled', { error: { code: 'cancelled', message } })
}

function settleLate(state: RegistryState, task: TaskEntry): void {
  const { taskId, submittedAt, deadlineAt } = task.spec
  const message = `Task "${taskId}" had not ended ${deadlineAt! - submittedAt} ms after it was submitted.`
  settle(state, task, 'failed', { error: { code: 'deadline_exceeded', message } })
}

/** Drops a task that this server lost. */
export function forget(
  state: RegistryState,
  { taskId, attempt = Number.POSITIVE_INFINITY }: CommandOf<'forget'>,
): void {
  const task = state.tasks.get(taskId)
  if (task !== undefined && task.spec.attempt <= attempt) drop(state, task)
}

/** Handles a time limit of a task that has passed. */
export function taskDue(state: RegistryState, task: TaskEntry): void {
  const { now } = state
  const { deadlineAt, idleMs } = task.spec
  if (deadlineAt !== null && deadlineAt <= now) {
    settleLate(state, task)
  } else if (task.answerBy > now) {
    setTaskTimer(state, task)
  } else if (task.status === 'assigned') {
    giveUp(state, task, 'accept_timeout', `did not accept it in ${state.policy.acceptMs} ms`)
  } else {
    giveUp(state, task, 'idle_timeout', `showed no progress for ${idleMs} ms`)
  }
}

function giveUp(state: RegistryState, task: TaskEntry, code: FaultCode, what: string): void {
  const nodeId = task.lease?.node.nodeId ?? ''
  endAttempt(state, task, code, { code, message: `Node "${nodeId}" ${what}.` })
}
