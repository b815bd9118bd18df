/**
 * Placing tasks on nodes: at once where a node has free slots, otherwise in the wait queue. After every command no task
 * waits that a node has free slots for, except while matching is unfinished.
 */

import { choose } from '../matching/choose-node.ts'
import type { RegistryNode } from '../matching/node-table.ts'
import { startRebuildFor } from '../matching/rebuild.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease, setTaskTimer, type TaskEntry } from './task-entry.ts'

/** Places a task if a node has free slots. */
export function place(state: RegistryState, task: TaskEntry): boolean {
  const { generation, policy } = state
  const view = state.view(task.demand)
  if (view.blind) startRebuildFor(state, task.demand)
  if (view.open.length === 0 && generation.unfinished) {
    state.match(policy.sliceSteps, view)
  }
  const { session } = task.spec
  const stickyId = session === null ? undefined : state.sessions.find(session, state.now)
  const sticky = stickyId === undefined ? undefined : state.nodes.find(stickyId)
  const node = choose(generation, view, { sticky, shunned: task.spec.shunned ?? null }, state.dice, policy)
  if (node === null) return false
  assign(state, task, node)
  return true
}

/** Takes slots of a node that has them free, and sends the task there. */
export function assign(state: RegistryState, task: TaskEntry, node: RegistryNode): void {
  const { taskId, attempt, session, service, deadlineAt } = task.spec
  leaveQueue(state, task)
  const lease: Lease = {
    key: attemptKey(taskId, attempt),
    taskId,
    attempt,
    node,
    epoch: node.epoch,
    shape: task.demand.shape,
    seq: Number.POSITIVE_INFINITY,
    task,
    grace: null,
  }
  task.lease = lease
  node.take(lease)
  state.refresh(node)
  if (session !== null) state.sessions.bind(session, node.nodeId, state.now)
  task.status = 'assigned'
  task.since = state.now
  const { acceptMs } = state.policy
  task.answerBy = acceptMs > 0 ? state.now + acceptMs : Number.POSITIVE_INFINITY
  setTaskTimer(state, task)
  const { nodeId, epoch } = node
  const seq = node.send(lease)
  state.emit({ kind: 'assign', nodeId, epoch, taskId, attempt, seq, service, deadlineAt })
}

/** In how many milliseconds to try again when no further task may wait now; null: one may. */
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

/** Takes a task out of the wait queue, if it is in it, and gives up the node kept free for it. */
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

/** Gives up the node that is kept free for a task. */
export function letGo(state: RegistryState, task: TaskEntry): void {
  const node = task.holds
  if (node === null) return
  task.holds = null
  node.heldFor = null
  state.holdCount -= 1
  state.refresh(node)
  state.freedNodes.add(node)
}
