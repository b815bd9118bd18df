/**
 * What a node runs, compared with what the registry knows of it, and the orphan tasks found that way: leases without a task, for
 * work that is not this server's and takes the node's slots all the same until it has stopped.
 *
 *   listed, unknown ─▶ closed for new work, looked up ─▶ orphan ─▶ not listed, ended, or out of time ─▶ free
 */

import { type Shape, shapeOf } from '../matching/demand.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import type { Command } from './command.ts'
import { endAttempt } from './ending.ts'
import { linger, orphanAttempt, releaseLease, tellDrained } from './leases.ts'
import type { RegistryState } from './registry-state.ts'
import { attemptKey, type Lease } from './task-entry.ts'
import { createTimer } from './timers.ts'

/** Tasks that are not the node's own, spoken of per list of it; the others have their turn with the next. */
const maxTold = 64

/**
 * Mends what the registry and the node disagree on. Assigns that it had not received when it spoke are not judged: a
 * heartbeat never takes back what was reserved after it.
 */
export function compareRunning(
  state: RegistryState,
  node: FleetNode,
  running: readonly string[],
  upTo: number,
): void {
  const { foreignTasks } = node
  if (running.length === 0 && node.leases.size === 0 && foreignTasks.unsure.size === 0) {
    foreignTasks.clear()
    return
  }
  const listed = new Set(running)
  const own = forgetUnlisted(state, node, listed, upTo)
  foreignTasks.keep(listed)
  let left = maxTold
  for (const taskId of listed) {
    if (own.has(taskId)) continue
    const isKnown = foreignTasks.over.has(taskId) || node.leases.has(attemptKey(taskId, orphanAttempt))
    const task = isKnown ? undefined : state.tasks.get(taskId)
    if (task !== undefined) {
      // It has come here since it was asked about: the answer would make a second orphan, and leave the first one's timer behind.
      foreignTasks.resolve(taskId)
      holdOrphan(state, node, taskId, task.demand.shape)
    } else if (!isKnown) {
      foreignTasks.add(taskId)
    }
    if (left > 0) tell(state, node, taskId)
    left -= 1
  }
  settleUnsure(state, node)
}

/** Ends the attempts that the node should know of and does not; answers the tasks that it holds of this server. */
function forgetUnlisted(
  state: RegistryState,
  node: FleetNode,
  listed: ReadonlySet<string>,
  upTo: number,
): ReadonlySet<string> {
  const { nodeId, epoch } = node
  const own = new Set<string>()
  for (const lease of [...node.leases.values()]) {
    const { task, taskId } = lease
    if (lease.seq > upTo || listed.has(taskId)) {
      if (lease.attempt !== orphanAttempt) own.add(taskId)
      continue
    }
    releaseLease(state, lease)
    if (task === null) continue
    task.lease = null
    const message = `Node "${nodeId}" does not know the task any more.`
    endAttempt(state, task, 'forgotten', { code: 'forgotten', message }, { by: { nodeId, epoch } })
  }
  return own
}

/** Starts the lookup of a foreign task; its answer tells the node what to do. */
function tell(state: RegistryState, node: FleetNode, taskId: string): void {
  const { nodeId, epoch } = node
  node.foreignTasks.unasked.delete(taskId)
  if (state.tasks.has(taskId)) state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt: orphanAttempt })
  else state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt: orphanAttempt, said: 'running' })
}

/** Holds slots of a node for what it runs and should not. It was told to stop just now. */
function holdOrphan(state: RegistryState, node: FleetNode, taskId: string, shape: Shape): void {
  const lease: Lease = {
    key: attemptKey(taskId, orphanAttempt),
    taskId,
    attempt: orphanAttempt,
    node,
    epoch: node.epoch,
    shape,
    // The node lists it, so it counts in the node's own figures.
    seq: 0,
    task: null,
    grace: null,
  }
  node.take(lease)
  linger(state, lease)
  state.refresh(node)
}

/** A task that a node lists was looked up. */
export function heardOrphan(state: RegistryState, said: Extract<Command, { kind: 'orphan' }>): void {
  const { nodeId, epoch, taskId, uses } = said
  const node = state.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  const { foreignTasks } = node
  // The node has spoken since: it does not list the task any more, or said how it ended.
  if (!foreignTasks.resolve(taskId)) return
  if (uses === null) foreignTasks.end(taskId, node.totalSlots)
  else holdOrphan(state, node, taskId, shapeOf(uses))
  for (const next of foreignTasks.unasked) {
    tell(state, node, next)
    break
  }
  settleUnsure(state, node)
}

/** The node said that it has stopped working on a task, whatever the registry assumed. */
export function releaseOrphan(
  state: RegistryState,
  node: FleetNode,
  taskId: string,
  lease: Lease | undefined,
): void {
  const { foreignTasks } = node
  const wasUnsure = foreignTasks.unsure.size > 0
  foreignTasks.end(taskId, node.totalSlots)
  const orphan = lease === undefined ? node.leases.get(attemptKey(taskId, orphanAttempt)) : undefined
  if (orphan !== undefined) releaseLease(state, orphan)
  if (wasUnsure) settleUnsure(state, node)
}

/** Closes a node while it is unsure how much of it is taken, for a while at most, and opens it when that is known. */
function settleUnsure(state: RegistryState, node: FleetNode): void {
  const isUnsure = node.foreignTasks.unsure.size > 0
  const wasUnsure = node.unsureTimer !== null && node.unsureTimer.position >= 0
  if (isUnsure === wasUnsure) return
  if (isUnsure) {
    node.unsureTimer ??= createTimer('unsure', node)
    state.timers.set(node.unsureTimer, state.now + state.policy.cancelGraceMs)
    state.refresh(node)
    return
  }
  state.timers.clear(node.unsureTimer!)
  state.refresh(node)
  state.freedNodes.add(node)
  tellDrained(state, node)
}

/** The lookup of a node's foreign tasks timed out: it gets work again. */
export function unsureDue(state: RegistryState, node: FleetNode): void {
  const { nodeId, epoch, foreignTasks } = node
  state.tell({ name: 'node.unanswered', nodeId, epoch, taskCount: foreignTasks.unsure.size })
  foreignTasks.giveUp()
  state.refresh(node)
  state.freedNodes.add(node)
  tellDrained(state, node)
}
