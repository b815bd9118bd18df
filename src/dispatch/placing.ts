/**
 * Placing tasks on nodes: at once where there is room, otherwise in line. After every command the books are at rest:
 * no task waits that a node has room for, except while matching is unfinished or the store did not answer.
 */
import type { Books } from './books.ts'
import { choose } from './choice.ts'
import type { FleetNode } from './fleetnode.ts'
import { linger, releaseLease } from './leases.ts'
import { startRebuildFor } from './rebuild.ts'
import { rest } from './resting.ts'
import { attemptKey, type Lease, type TaskEntry } from './taskentry.ts'
import { setTaskTimer } from './tasktimer.ts'
import { enterLine, leaveLine } from './waiting.ts'

/** Places a task if a node has room. */
export function place(books: Books, task: TaskEntry): boolean {
  if (books.stalled) return false
  const { generation, policy } = books
  const view = books.view(task.demand)
  if (view.blind) startRebuildFor(books, task.demand)
  if (view.open.length === 0 && generation.unfinished) {
    books.match(policy.sliceSteps)
  }
  const { session } = task.spec
  const stickyId = session === null ? undefined : books.sessions.find(session, books.now)
  const sticky = stickyId === undefined ? undefined : books.fleet.find(stickyId)
  const node = choose(generation, view, { sticky, shunned: task.shunned }, books.dice, policy)
  if (node === null) return false
  reserve(books, task, node)
  return true
}

/** Takes a node's slots for a task; it has room. */
export function reserve(books: Books, task: TaskEntry, node: FleetNode): void {
  const { taskId, attempt, session } = task.spec
  leaveLine(books, task)
  const key = attemptKey(taskId, attempt)
  const lease: Lease = {
    key,
    reservationId: task.tries === 0 ? key : `${key}.${task.tries}`,
    taskId,
    attempt,
    node,
    epoch: node.epoch,
    shape: task.demand.shape,
    seq: Number.POSITIVE_INFINITY,
    task,
    grace: null,
  }
  task.tries += 1
  task.lease = lease
  node.take(lease)
  books.refresh(node)
  if (session !== null) books.sessions.bind(session, node.nodeId, books.now)
  if (!books.shared) {
    assign(books, task, lease)
    return
  }
  task.status = 'reserving'
  task.since = books.now
  setTaskTimer(books, task)
  books.reserving.set(lease.reservationId, lease)
  const { reservationId, epoch, shape } = lease
  books.emit({
    kind: 'reserve',
    reservationId,
    taskId,
    attempt,
    nodeId: node.nodeId,
    epoch,
    uses: shape.uses,
  })
}

/** The slots are granted: the task goes out. */
export function assign(books: Books, task: TaskEntry, lease: Lease): void {
  const { node, taskId, attempt } = lease
  const { service, deadlineAt } = task.spec
  const { acceptMs } = books.policy
  task.status = 'assigned'
  task.since = books.now
  task.answerBy = acceptMs > 0 ? books.now + acceptMs : Number.POSITIVE_INFINITY
  setTaskTimer(books, task)
  const { nodeId, epoch, via } = node
  books.emit({
    kind: 'assign',
    nodeId,
    epoch,
    via,
    taskId,
    attempt,
    seq: node.send(lease),
    service,
    deadlineAt,
  })
}

/** The shared store's answer. */
export function heardReserve(
  books: Books,
  reservationId: string,
  answer: 'granted' | 'refused' | 'unavailable',
  used: Readonly<Record<string, number>> | null,
): void {
  const lease = books.reserving.get(reservationId)
  if (lease === undefined) return
  books.reserving.delete(reservationId)
  const { node, task } = lease
  const current = node.leases.get(lease.key) === lease
  if (used !== null && current) seeForeign(node, used, answer === 'granted' ? null : lease)
  if (answer === 'granted' && task !== null && current) {
    books.refresh(node)
    assign(books, task, lease)
    return
  }
  // Whatever the store may have noted for it is given back: without an answer nobody knows.
  if (current) {
    if (answer === 'refused') lease.node.giveBack(lease)
    else releaseLease(books, lease)
    books.refresh(node)
    books.roomy.push(node)
  } else if (answer !== 'refused') {
    books.emit({ kind: 'release', reservationId, nodeId: node.nodeId, epoch: lease.epoch })
  }
  if (task === null || task.lease !== lease) return
  task.lease = null
  if (answer === 'unavailable') {
    books.timers.set(books.stalledTimer, books.now + books.policy.stalledMs)
  } else if (used === null && current) {
    // It looks free and is not, and nobody says how much is used: asking again at once would get the same answer.
    for (const name of lease.shape.names) rest(books, node, name, books.policy.restMs)
  }
  if (!place(books, task)) enterLine(books, task)
}

/** What all servers use on a node, less what is our own there: the others' part. */
function seeForeign(node: FleetNode, used: Readonly<Record<string, number>>, refused: Lease | null): void {
  node.services.forEach(({ name }, at) => {
    const own = node.used[at]! - (refused?.shape.uses[name] ?? 0)
    // Own reservations that the store has not seen yet must not make the others' part negative.
    node.foreign[at] = Math.max(0, (used[name] ?? 0) - own)
  })
}

/** Takes a task off its node, if it has one: the node is told to stop. */
export function withdraw(books: Books, task: TaskEntry): void {
  const { lease } = task
  task.lease = null
  if (lease === null) return
  lease.task = null
  linger(books, lease)
}
