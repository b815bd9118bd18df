/**
 * Placing tasks on nodes: at once where there is room, otherwise in line. After every command the books are at rest:
 * no task waits that a node has room for, except while matching is unfinished.
 */

import { choose } from '../matching/choose-node.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import { startRebuildFor } from '../matching/rebuild.ts'
import { leaveLine } from '../waiting/waiting.ts'
import { linger } from './leases.ts'
import type { Books } from './registry-state.ts'
import { attemptKey, type Lease, type TaskEntry } from './task-entry.ts'
import { setTaskTimer } from './task-timer.ts'

/** Places a task if a node has room. */
export function place(books: Books, task: TaskEntry): boolean {
  const { generation, policy } = books
  const view = books.view(task.demand)
  if (view.blind) startRebuildFor(books, task.demand)
  if (view.open.length === 0 && generation.unfinished) {
    books.match(policy.sliceSteps, view)
  }
  const { session } = task.spec
  const stickyId = session === null ? undefined : books.sessions.find(session, books.now)
  const sticky = stickyId === undefined ? undefined : books.fleet.find(stickyId)
  const node = choose(generation, view, { sticky, shunned: task.shunned }, books.dice, policy)
  if (node === null) return false
  assign(books, task, node)
  return true
}

/** Takes a node's slots for a task, and sends it there; the node has room. */
export function assign(books: Books, task: TaskEntry, node: FleetNode): void {
  const { taskId, attempt, session, service, deadlineAt } = task.spec
  leaveLine(books, task)
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
  books.refresh(node)
  if (session !== null) books.sessions.bind(session, node.nodeId, books.now)
  task.status = 'assigned'
  task.since = books.now
  const { acceptMs } = books.policy
  task.answerBy = acceptMs > 0 ? books.now + acceptMs : Number.POSITIVE_INFINITY
  setTaskTimer(books, task)
  const { nodeId, epoch } = node
  const seq = node.send(lease)
  books.emit({ kind: 'assign', nodeId, epoch, taskId, attempt, seq, service, deadlineAt })
}

/** Takes a task off its node, if it has one: the node is told to stop. */
export function withdraw(books: Books, task: TaskEntry): void {
  const { lease } = task
  task.lease = null
  if (lease === null) return
  lease.task = null
  linger(books, lease)
}
