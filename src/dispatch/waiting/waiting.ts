/** Waiting: being let in, entering the wait queue, leaving it. */
import type { RegistryState } from '../registry/registry-state.ts'
import type { TaskEntry } from '../registry/task-entry.ts'
import { setTaskTimer } from '../registry/task-timer.ts'

/** When to come again, if one more may not wait now; null: it may. */
export function admission(
  { policy, tenants, waitingCount, msPerWake }: RegistryState,
  tenant: string,
): number | null {
  const own = tenants.waitingOf(tenant)
  if (waitingCount < policy.maxWaiting && own < policy.maxWaitingPerTenant) return null
  // As long as it takes for a tenth of the wait queue to be served, within reason.
  return Math.round(Math.min(60_000, Math.max(1_000, (waitingCount / 10) * msPerWake)))
}

/** Puts a task into its wait queue. */
export function enterQueue(state: RegistryState, task: TaskEntry): void {
  const tenant = state.tenants.enter(task.spec.tenant)
  task.entry = task.demand.waitQueue.add(task, tenant, state.now)
  task.status = 'waiting'
  task.since = state.now
  task.answerBy = Number.POSITIVE_INFINITY
  setTaskTimer(state, task)
  state.waitingCount += 1
  const { kind } = task.demand
  const waiting = state.waitingKinds.get(kind)
  if (waiting === undefined) state.waitingKinds.set(kind, new Set([task.demand]))
  else waiting.add(task.demand)
  const { taskId, attempt } = task.spec
  state.emit({ kind: 'taskChanged', status: 'waiting', taskId, attempt, nodeId: null })
}

/** Takes a task out of the wait queue, if it is in it; nothing is kept free for it any more. */
export function leaveQueue(state: RegistryState, task: TaskEntry): void {
  const { entry, demand } = task
  if (entry === null) return
  demand.waitQueue.remove(entry)
  task.entry = null
  state.waitingCount -= 1
  if (demand.waitQueue.size === 0) {
    const waiting = state.waitingKinds.get(demand.kind)!
    waiting.delete(demand)
    if (waiting.size === 0) state.waitingKinds.delete(demand.kind)
  }
  state.tenants.leave(entry.tenant)
  letGo(state, task)
}

/** Ends the keeping of a node for a task. */
export function letGo(state: RegistryState, task: TaskEntry): void {
  const node = task.holds
  if (node === null) return
  task.holds = null
  node.heldFor = null
  state.holdCount -= 1
  state.refresh(node)
  state.freedNodes.add(node)
}
