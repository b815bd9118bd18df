/**
 * How tasks end, and how attempts end that do not end their task. `settle` is the only way out of the registry that is
 * told as an end, and it takes the task out first: there is no second.
 */

import type { FaultCode, TaskEnd, TaskError } from '../node.ts'
import { leaveQueue } from '../waiting/waiting.ts'
import { withdraw } from './placing.ts'
import type { RegistryState } from './registry-state.ts'
import type { TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

/** The node that reported the end of a task; null: none did. */
export interface Speaker {
  readonly nodeId: string | null
  readonly epoch: number
}

/** So often the node of a task may go to another server without that costing an attempt: a task must not go round for ever. */
const maxMoves = 20
const nobody: Speaker = { nodeId: null, epoch: 0 }

/** Takes a task out of the registry without a word. */
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
  { output = null, error = null, by = nobody }: { output?: unknown; error?: TaskError | null; by?: Speaker },
): void {
  const { taskId, attempt } = task.spec
  drop(state, task)
  state.emit({ kind: 'settled', taskId, attempt, end, output, error, nodeId: by.nodeId, epoch: by.epoch })
}

/** Ends a task as failed with a code of dispatch's own. */
export function settleFailed(state: RegistryState, task: TaskEntry, code: FaultCode, message: string): void {
  settle(state, task, 'failed', { error: { code, message } })
}

/** An attempt is over without a result: the next one, unless there is none left or none is wanted. */
export function endAttempt(
  state: RegistryState,
  task: TaskEntry,
  code: FaultCode,
  error: TaskError,
  { by = nobody, afterMs = 0 }: { by?: Speaker; afterMs?: number } = {},
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
  task.shunned = nodeId
  withdraw(state, task)
  task.status = 'requeued'
  task.since = state.now
  task.answerBy = state.now + state.policy.keepMs
  setTaskTimer(state, task)
  state.emit({
    kind: 'requeue',
    taskId,
    attempt,
    nodeId,
    code,
    error,
    afterMs,
    ...(isFree ? { isFree } : {}),
  })
}
