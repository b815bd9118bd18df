/** A task has one timer for all its bounds. */
import type { RegistryState } from './registry-state.ts'
import type { TaskEntry } from './task-entry.ts'

/** Sets the task's timer to the nearest of its bounds. */
export function setTaskTimer(state: RegistryState, task: TaskEntry): void {
  const at = Math.min(task.spec.deadlineAt ?? Number.POSITIVE_INFINITY, task.answerBy)
  if (at === Number.POSITIVE_INFINITY) state.timers.clear(task.timer)
  else state.timers.set(task.timer, at)
}
