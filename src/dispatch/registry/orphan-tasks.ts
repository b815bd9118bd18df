/**
 * What a node runs, compared with what the books hold of it, and the ghosts that come of it: leases without a task, for
 * work that is not this server's and takes the node's slots all the same until it has stopped.
 *
 *   listed, unknown ─▶ closed for new work, looked up ─▶ ghost ─▶ not listed, ended, or out of time ─▶ free
 */

import { type Shape, shapeOf } from '../matching/demand.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import type { Command } from './command.ts'
import { endAttempt } from './ending.ts'
import { ghostAttempt, linger, releaseLease, tellDrained } from './leases.ts'
import type { Books } from './registry-state.ts'
import { attemptKey, type Lease } from './task-entry.ts'
import { createTimer } from './timers.ts'

/** Tasks that are not the node's own, spoken of per list of it; the others have their turn with the next. */
const maxTold = 64

/**
 * Mends what the books and the node disagree on. Assigns that it had not received when it spoke are not judged: a
 * heartbeat never takes back what was reserved after it.
 */
export function compareRunning(
  books: Books,
  node: FleetNode,
  running: readonly string[],
  upTo: number,
): void {
  const { strangers } = node
  if (running.length === 0 && node.leases.size === 0 && strangers.unsure.size === 0) {
    strangers.clear()
    return
  }
  const listed = new Set(running)
  const own = forgetUnlisted(books, node, listed, upTo)
  strangers.keep(listed)
  let left = maxTold
  for (const taskId of listed) {
    if (own.has(taskId)) continue
    const isKnown = strangers.over.has(taskId) || node.leases.has(attemptKey(taskId, ghostAttempt))
    const task = isKnown ? undefined : books.tasks.get(taskId)
    if (task !== undefined) {
      // It has come here since it was asked about: the answer would make a second ghost, and leave the first one's timer behind.
      strangers.resolve(taskId)
      haunt(books, node, taskId, task.demand.shape)
    } else if (!isKnown) {
      strangers.add(taskId)
    }
    if (left > 0) tell(books, node, taskId)
    left -= 1
  }
  settleUnsure(books, node)
}

/** Ends the attempts that the node should know of and does not; answers the tasks that it holds of this server. */
function forgetUnlisted(
  books: Books,
  node: FleetNode,
  listed: ReadonlySet<string>,
  upTo: number,
): ReadonlySet<string> {
  const { nodeId, epoch } = node
  const own = new Set<string>()
  for (const lease of [...node.leases.values()]) {
    const { task, taskId } = lease
    if (lease.seq > upTo || listed.has(taskId)) {
      if (lease.attempt !== ghostAttempt) own.add(taskId)
      continue
    }
    releaseLease(books, lease)
    if (task === null) continue
    task.lease = null
    const message = `Node "${nodeId}" does not know the task any more.`
    endAttempt(books, task, 'forgotten', { code: 'forgotten', message }, { by: { nodeId, epoch } })
  }
  return own
}

/** The node is told, once somebody knows, what to do with a task that is not its own. */
function tell(books: Books, node: FleetNode, taskId: string): void {
  const { nodeId, epoch } = node
  node.strangers.unasked.delete(taskId)
  if (books.tasks.has(taskId)) books.emit({ kind: 'stale', nodeId, epoch, taskId, attempt: ghostAttempt })
  else books.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt: ghostAttempt, said: 'running' })
}

/** Holds slots of a node for what it runs and should not. It was told to stop just now. */
function haunt(books: Books, node: FleetNode, taskId: string, shape: Shape): void {
  const lease: Lease = {
    key: attemptKey(taskId, ghostAttempt),
    taskId,
    attempt: ghostAttempt,
    node,
    epoch: node.epoch,
    shape,
    // The node lists it, so it counts in the node's own figures.
    seq: 0,
    task: null,
    grace: null,
  }
  node.take(lease)
  linger(books, lease)
  books.refresh(node)
}

/** A task that a node lists was looked up. */
export function heardGhost(books: Books, said: Extract<Command, { kind: 'ghost' }>): void {
  const { nodeId, epoch, taskId, uses } = said
  const node = books.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  const { strangers } = node
  // The node has spoken since: it does not list the task any more, or said how it ended.
  if (!strangers.resolve(taskId)) return
  if (uses === null) strangers.end(taskId, node.totalSlots)
  else haunt(books, node, taskId, shapeOf(uses))
  for (const next of strangers.unasked) {
    tell(books, node, next)
    break
  }
  settleUnsure(books, node)
}

/** The node said that it has stopped working on a task, whatever the books thought of it. */
export function exorcise(books: Books, node: FleetNode, taskId: string, lease: Lease | undefined): void {
  const { strangers } = node
  const wasUnsure = strangers.unsure.size > 0
  strangers.end(taskId, node.totalSlots)
  const ghost = lease === undefined ? node.leases.get(attemptKey(taskId, ghostAttempt)) : undefined
  if (ghost !== undefined) releaseLease(books, ghost)
  if (wasUnsure) settleUnsure(books, node)
}

/** Closes a node while it is unsure how much of it is taken, for a while at most, and opens it when that is known. */
function settleUnsure(books: Books, node: FleetNode): void {
  const isUnsure = node.strangers.unsure.size > 0
  const wasUnsure = node.unsureTimer !== null && node.unsureTimer.place >= 0
  if (isUnsure === wasUnsure) return
  if (isUnsure) {
    node.unsureTimer ??= createTimer('unsure', node)
    books.timers.set(node.unsureTimer, books.now + books.policy.cancelGraceMs)
    books.refresh(node)
    return
  }
  books.timers.clear(node.unsureTimer!)
  books.refresh(node)
  books.roomy.add(node)
  tellDrained(books, node)
}

/** Nobody answered in time what a node runs: it gets work again. */
export function unsureDue(books: Books, node: FleetNode): void {
  const { nodeId, epoch, strangers } = node
  books.tell({ name: 'node.unanswered', nodeId, epoch, taskCount: strangers.unsure.size })
  strangers.giveUp()
  books.refresh(node)
  books.roomy.add(node)
  tellDrained(books, node)
}
