/**
 * How tasks end, and how attempts end that do not end their task. `settle` is the only way out of the books that is
 * told as an end, and it takes the task out first: there is no second.
 */

import type { FaultCode, TaskEnd, TaskError } from '../node.ts'
import { leaveLine } from '../waiting/waiting.ts'
import { withdraw } from './placing.ts'
import type { Books } from './registry-state.ts'
import type { TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

/** Who said that a task ended: the node, or nobody. */
export interface Speaker {
  readonly nodeId: string | null
  readonly epoch: number
}

/** So often the node of a task may go to another server without that costing an attempt: a task must not go round for ever. */
const maxMoves = 20
const nobody: Speaker = { nodeId: null, epoch: 0 }

/** Takes a task out of the books without a word. */
export function drop(books: Books, task: TaskEntry): void {
  leaveLine(books, task)
  withdraw(books, task)
  books.timers.clear(task.timer)
  if (books.tasks.get(task.spec.taskId) === task) books.tasks.delete(task.spec.taskId)
  task.demand.taskCount -= 1
}

/** Ends a task. */
export function settle(
  books: Books,
  task: TaskEntry,
  end: TaskEnd,
  { output = null, error = null, by = nobody }: { output?: unknown; error?: TaskError | null; by?: Speaker },
): void {
  const { taskId, attempt } = task.spec
  drop(books, task)
  books.emit({ kind: 'settled', taskId, attempt, end, output, error, nodeId: by.nodeId, epoch: by.epoch })
}

/** Ends a task as failed with a code of dispatch's own. */
export function settleFailed(books: Books, task: TaskEntry, code: FaultCode, message: string): void {
  settle(books, task, 'failed', { error: { code, message } })
}

/** An attempt is over without a result: the next one, unless there is none left or none is wanted. */
export function endAttempt(
  books: Books,
  task: TaskEntry,
  code: FaultCode,
  error: TaskError,
  { by = nobody, afterMs = 0 }: { by?: Speaker; afterMs?: number } = {},
): void {
  const { taskId, attempt, maxAttempts, retryable, moveCount = 0 } = task.spec
  const isFree = code === 'moved' && moveCount < maxMoves
  if (!retryable) {
    settle(books, task, 'failed', { error, by })
    return
  }
  if (attempt >= maxAttempts && !isFree) {
    const message = `All ${maxAttempts} attempts of task "${taskId}" failed, the last one with ${error.code}: ${error.message}`
    settle(books, task, 'failed', { error: { code: 'poison', message }, by })
    return
  }
  const nodeId = by.nodeId ?? task.lease?.node.nodeId ?? null
  task.shunned = nodeId
  withdraw(books, task)
  task.status = 'requeued'
  task.since = books.now
  task.answerBy = books.now + books.policy.keepMs
  setTaskTimer(books, task)
  books.emit({
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
