/** Tasks come, are cancelled, are taken away, and run out of time. */

import type { FaultCode, TaskSpec } from '../node.ts'
import { admission, enterLine } from '../waiting/waiting.ts'
import { drop, endAttempt, settle, settleFailed } from './ending.ts'
import { place } from './placing.ts'
import type { Books } from './registry-state.ts'
import { TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

/** A task comes, or its next attempt does. */
export function submit(books: Books, spec: TaskSpec, admitted: boolean): void {
  const { taskId, attempt, tenant, deadlineAt } = spec
  const known = books.tasks.get(taskId)
  if (known !== undefined && attempt <= known.spec.attempt) return
  const task = new TaskEntry(spec, books.demands.of(spec), books.now)
  task.demand.taskCount += 1
  if (known !== undefined) {
    // A higher attempt is proof that the older one's claim is over, whatever this server thought of it.
    task.shunned = known.shunned
    task.cancelReason = known.cancelReason
    drop(books, known)
  }
  books.tasks.set(taskId, task)
  if (task.cancelReason !== undefined) {
    settleCancelled(books, task, task.cancelReason)
  } else if (deadlineAt !== null && deadlineAt <= books.now) {
    settleLate(books, task)
  } else if (!place(books, task)) {
    const retryAfterMs = admitted || attempt > 1 ? null : admission(books, tenant)
    if (retryAfterMs === null) {
      enterLine(books, task)
    } else {
      drop(books, task)
      books.emit({ kind: 'refused', taskId, attempt, reason: 'too_many', retryAfterMs })
    }
  }
}

/** Ends a task because somebody wants it so. Its slots are free when its node has stopped. */
export function cancel(books: Books, taskId: string, reason: string | null): void {
  const task = books.tasks.get(taskId)
  if (task === undefined) return
  // Its job is handed back, so this server may not write its end: it ends when it comes again.
  if (task.status === 'requeued') task.cancelReason = reason
  else settleCancelled(books, task, reason)
}

function settleCancelled(books: Books, task: TaskEntry, reason: string | null): void {
  const message = reason ?? 'The task was cancelled.'
  settle(books, task, 'cancelled', { error: { code: 'cancelled', message } })
}

function settleLate(books: Books, task: TaskEntry): void {
  const { taskId, submittedAt, deadlineAt } = task.spec
  const message = `Task "${taskId}" had not ended ${deadlineAt! - submittedAt} ms after it was submitted.`
  settleFailed(books, task, 'deadline_exceeded', message)
}

/** The task is no longer this server's. */
export function forget(books: Books, taskId: string, attempt: number = Number.POSITIVE_INFINITY): void {
  const task = books.tasks.get(taskId)
  if (task !== undefined && task.spec.attempt <= attempt) drop(books, task)
}

/** One of the task's bounds has passed. */
export function taskDue(books: Books, task: TaskEntry): void {
  const { now } = books
  if (task.status === 'requeued') {
    if (task.answerBy <= now) drop(books, task)
    else books.timers.set(task.timer, task.answerBy)
    return
  }
  const { deadlineAt, idleMs } = task.spec
  if (deadlineAt !== null && deadlineAt <= now) {
    settleLate(books, task)
  } else if (task.answerBy > now) {
    setTaskTimer(books, task)
  } else if (task.status === 'assigned') {
    giveUp(books, task, 'accept_timeout', `did not accept it in ${books.policy.acceptMs} ms`)
  } else {
    giveUp(books, task, 'idle_timeout', `showed no progress for ${idleMs} ms`)
  }
}

function giveUp(books: Books, task: TaskEntry, code: FaultCode, what: string): void {
  const nodeId = task.lease?.node.nodeId ?? ''
  endAttempt(books, task, code, { code, message: `Node "${nodeId}" ${what}.` })
}
