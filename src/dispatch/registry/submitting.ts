/** Tasks come, are cancelled, are taken away, and run out of time. */

import type { FaultCode, TaskSpec } from '../node.ts'
import { admission, enterQueue } from '../waiting/waiting.ts'
import { drop, endAttempt, settle, settleFailed } from './ending.ts'
import { place } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import { TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

/** A task comes, or its next attempt does. */
export function submit(state: RegistryState, spec: TaskSpec, admitted: boolean): void {
  const { taskId, attempt, tenant, deadlineAt } = spec
  const known = state.tasks.get(taskId)
  if (known !== undefined && attempt <= known.spec.attempt) return
  const task = new TaskEntry(spec, state.demands.of(spec), state.now)
  task.demand.taskCount += 1
  if (known !== undefined) {
    // A higher attempt is proof that the older one's claim is over, whatever this server thought of it.
    task.shunned = known.shunned
    task.cancelReason = known.cancelReason
    drop(state, known)
  }
  state.tasks.set(taskId, task)
  if (task.cancelReason !== undefined) {
    settleCancelled(state, task, task.cancelReason)
  } else if (deadlineAt !== null && deadlineAt <= state.now) {
    settleLate(state, task)
  } else if (!place(state, task)) {
    const retryAfterMs = admitted || attempt > 1 ? null : admission(state, tenant)
    if (retryAfterMs === null) {
      enterQueue(state, task)
    } else {
      drop(state, task)
      state.emit({ kind: 'refused', taskId, attempt, reason: 'too_many', retryAfterMs })
    }
  }
}

/** Ends a task on request. Its slots are free when its node has stopped. */
export function cancel(state: RegistryState, taskId: string, reason: string | null): void {
  const task = state.tasks.get(taskId)
  if (task === undefined) return
  // Its job is handed back, so this server may not write its end: it ends when it comes again.
  if (task.status === 'requeued') task.cancelReason = reason
  else settleCancelled(state, task, reason)
}

function settleCancelled(state: RegistryState, task: TaskEntry, reason: string | null): void {
  const message = reason ?? 'The task was cancelled.'
  settle(state, task, 'cancelled', { error: { code: 'cancelled', message } })
}

function settleLate(state: RegistryState, task: TaskEntry): void {
  const { taskId, submittedAt, deadlineAt } = task.spec
  const message = `Task "${taskId}" had not ended ${deadlineAt! - submittedAt} ms after it was submitted.`
  settleFailed(state, task, 'deadline_exceeded', message)
}

/** The task is no longer this server's. */
export function forget(
  state: RegistryState,
  taskId: string,
  attempt: number = Number.POSITIVE_INFINITY,
): void {
  const task = state.tasks.get(taskId)
  if (task !== undefined && task.spec.attempt <= attempt) drop(state, task)
}

/** One of the task's bounds has passed. */
export function taskDue(state: RegistryState, task: TaskEntry): void {
  const { now } = state
  if (task.status === 'requeued') {
    if (task.answerBy <= now) drop(state, task)
    else state.timers.set(task.timer, task.answerBy)
    return
  }
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
