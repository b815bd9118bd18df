/**
 * Places tasks: on a node that has free slots, otherwise in the wait queue. After every command, no node has free slots
 * for a waiting task, except while matching is unfinished.
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
  if (view.needsRebuild) startRebuildFor(state, task.demand)
  if (view.open.length === 0 && generation.unfinished) {
    state.match(policy.sliceSteps, view)
  }
  const { session } = task.spec
  const stickyId = session === null ? undefined : state.sessions.find(session, state.now)
  const sticky = stickyId === undefined ? undefined : state.nodes.find(stickyId)
  const node = choose(generation, view, { sticky, shunned: task.spec.shunned ?? null }, state.random, policy)
  if (node === null) return false
  assign(state, task, node)
  return true
}

/** Takes free slots of a node and sends it the task. */
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

/** Whether one more task may wait: null, or the milliseconds after which to try again. */
export function admission(
  { policy, tenants, waitingCount, msPerWake }: RegistryState,
  tenant: string,
): number | null {
  const own = tenants.waitingOf(tenant)
  if (waitingCount < policy.maxWaiting && own < policy.maxWaitingPerTenant) return null
  // The time in which a tenth of the wait queue is served, between 1 s and 60 s.
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

/** Takes a task out of the wait queue, if it waits, and releases the node that is kept free for it. */
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
  releaseHold(state, task)
}

/** Releases the node that is kept free for a task. */
export function releaseHold(state: RegistryState, task: TaskEntry): void {
  const node = task.heldNode
  if (node === null) return
  task.heldNode = null
  node.heldFor = null
  state.holdCount -= 1
  state.freed(node)
}
