/**
 * What a node runs, compared with what the registry knows of it, and the ghosts that come of it: leases without a task, for
 * work that is not this server's and takes the node's slots all the same until it has stopped.
 *
 *   listed, unknown ─▶ closed for new work, looked up ─▶ ghost ─▶ not listed, ended, or out of time ─▶ free
 */

import { type Shape, shapeOf } from '../matching/demand.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import type { Command } from './command.ts'
import { endAttempt } from './ending.ts'
import { ghostAttempt, linger, releaseLease, tellDrained } from './leases.ts'
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
  const { strangers } = node
  if (running.length === 0 && node.leases.size === 0 && strangers.unsure.size === 0) {
    strangers.clear()
    return
  }
  const listed = new Set(running)
  const own = forgetUnlisted(state, node, listed, upTo)
  strangers.keep(listed)
  let left = maxTold
  for (const taskId of listed) {
    if (own.has(taskId)) continue
    const isKnown = strangers.over.has(taskId) || node.leases.has(attemptKey(taskId, ghostAttempt))
    const task = isKnown ? undefined : state.tasks.get(taskId)
    if (task !== undefined) {
      // It has come here since it was asked about: the answer would make a second ghost, and leave the first one's timer behind.
      strangers.resolve(taskId)
      haunt(state, node, taskId, task.demand.shape)
    } else if (!isKnown) {
      strangers.add(taskId)
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
      if (lease.attempt !== ghostAttempt) own.add(taskId)
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

/** The node is told, once somebody knows, what to do with a task that is not its own. */
function tell(state: RegistryState, node: FleetNode, taskId: string): void {
  const { nodeId, epoch } = node
  node.strangers.unasked.delete(taskId)
  if (state.tasks.has(taskId)) state.emit({ kind: 'stale', nodeId, epoch, taskId, attempt: ghostAttempt })
  else state.emit({ kind: 'unknownTask', nodeId, epoch, taskId, attempt: ghostAttempt, said: 'running' })
}

/** Holds slots of a node for what it runs and should not. It was told to stop just now. */
function haunt(state: RegistryState, node: FleetNode, taskId: string, shape: Shape): void {
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
  linger(state, lease)
  state.refresh(node)
}

/** A task that a node lists was looked up. */
export function heardGhost(state: RegistryState, said: Extract<Command, { kind: 'ghost' }>): void {
  const { nodeId, epoch, taskId, uses } = said
  const node = state.fleet.find(nodeId)
  if (node === undefined || node.epoch !== epoch || node.status === 'gone') return
  const { strangers } = node
  // The node has spoken since: it does not list the task any more, or said how it ended.
  if (!strangers.resolve(taskId)) return
  if (uses === null) strangers.end(taskId, node.totalSlots)
  else haunt(state, node, taskId, shapeOf(uses))
  for (const next of strangers.unasked) {
    tell(state, node, next)
    break
  }
  settleUnsure(state, node)
}

/** The node said that it has stopped working on a task, whatever the registry assumed. */
export function exorcise(
  state: RegistryState,
  node: FleetNode,
  taskId: string,
  lease: Lease | undefined,
): void {
  const { strangers } = node
  const wasUnsure = strangers.unsure.size > 0
  strangers.end(taskId, node.totalSlots)
  const ghost = lease === undefined ? node.leases.get(attemptKey(taskId, ghostAttempt)) : undefined
  if (ghost !== undefined) releaseLease(state, ghost)
  if (wasUnsure) settleUnsure(state, node)
}

/** Closes a node while it is unsure how much of it is taken, for a while at most, and opens it when that is known. */
function settleUnsure(state: RegistryState, node: FleetNode): void {
  const isUnsure = node.strangers.unsure.size > 0
  const wasUnsure = node.unsureTimer !== null && node.unsureTimer.place >= 0
  if (isUnsure === wasUnsure) return
  if (isUnsure) {
    node.unsureTimer ??= createTimer('unsure', node)
    state.timers.set(node.unsureTimer, state.now + state.policy.cancelGraceMs)
    state.refresh(node)
    return
  }
  state.timers.clear(node.unsureTimer!)
  state.refresh(node)
  state.roomy.add(node)
  tellDrained(state, node)
}

/** Nobody answered in time what a node runs: it gets work again. */
export function unsureDue(state: RegistryState, node: FleetNode): void {
  const { nodeId, epoch, strangers } = node
  state.tell({ name: 'node.unanswered', nodeId, epoch, taskCount: strangers.unsure.size })
  strangers.giveUp()
  state.refresh(node)
  state.roomy.add(node)
  tellDrained(state, node)
}
