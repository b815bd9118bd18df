/**
 * Placing tasks on nodes: at once where there is capacity, otherwise in the wait queue. After every command the registry is at rest:
 * no task waits that a node has free slots for, except while matching is unfinished.
 */

import { choose } from '../matching/choose-node.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import { startRebuildFor } from '../matching/rebuild.ts'
import { leaveQueue } from '../waiting/waiting.ts'
import { linger } from './leases.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease, type TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

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
  const sticky = stickyId === undefined ? undefined : state.fleet.find(stickyId)
  const node = choose(generation, view, { sticky, shunned: task.shunned }, state.dice, policy)
  if (node === null) return false
  assign(state, task, node)
  return true
}

/** Takes a node's slots for a task, and sends it there; the node has free slots. */
export function assign(state: RegistryState, task: TaskEntry, node: FleetNode): void {
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

/** Takes a task off its node, if it has one: the node is told to stop. */
export function withdraw(state: RegistryState, task: TaskEntry): void {
  const { lease } = task
  task.lease = null
  if (lease === null) return
  lease.task = null
  linger(state, lease)
}
