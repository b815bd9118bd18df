/** A task has one timer for all its bounds. */
import type { Books } from './registry-state.ts'
import type { TaskEntry } from './task-entry.ts'

/** Sets the task's timer to the nearest of its bounds. */
export function setTaskTimer(books: Books, task: TaskEntry): void {
  const at = Math.min(task.spec.deadlineAt ?? Number.POSITIVE_INFINITY, task.answerBy)
  if (at === Number.POSITIVE_INFINITY) books.timers.clear(task.timer)
  else books.timers.set(task.timer, at)
}
