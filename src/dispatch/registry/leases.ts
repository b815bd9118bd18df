/** How leases end: at the node's word, with the node, or after a cancelled attempt was given time to stop. */

import type { FleetNode } from '../matching/fleet-node.ts'
import type { FaultCode } from '../node.ts'
import type { RegistryState } from './registry-state.ts'
import type { Lease } from './task-entry.ts'
import { createTimer } from './timers.ts'

/** The attempt that stands for any, in words about a task that a node only lists. */
export const orphanAttempt = 0

/** Frees a lease's slots. Once is enough, twice is harmless. */
export function releaseLease(state: RegistryState, lease: Lease): void {
  const { node } = lease
  if (lease.grace !== null) state.timers.clear(lease.grace)
  if (!node.giveBack(lease)) return
  state.refresh(node)
  state.freedNodes.add(node)
  tellDrained(state, node)
}

/** Says so when a draining node runs nothing any more. */
export function tellDrained(state: RegistryState, node: FleetNode): void {
  const { nodeId, epoch } = node
  const isIdle = node.leases.size === 0 && node.foreignTasks.unsure.size === 0
  if (node.draining && isIdle) state.emit({ kind: 'drained', nodeId, epoch })
}

/** The task of a lease is gone; its slots wait until the node has stopped too. */
export function linger(state: RegistryState, lease: Lease): void {
  const { node, taskId, attempt } = lease
  if (node.leases.get(lease.key) !== lease) return
  lease.grace = createTimer('grace', lease)
  state.timers.set(lease.grace, state.now + state.policy.cancelGraceMs)
  // The lookup tells the node about an orphan task: its attempt is unknown here.
  if (attempt === orphanAttempt) return
  state.emit({ kind: 'cancelFrame', nodeId: node.nodeId, epoch: node.epoch, taskId, attempt })
}

/** The node did not answer a cancel in time: its slots are taken as free. */
export function forceRelease(state: RegistryState, lease: Lease): void {
  const { node, taskId, attempt } = lease
  state.tell({ name: 'slot.forced', nodeId: node.nodeId, taskId, attempt })
  // It may go on listing the task: that alone does not take the slots again.
  node.foreignTasks.end(taskId, node.totalSlots)
  releaseLease(state, lease)
}

/** The node, or this instance of it, is lost: its leases are void now, their attempts are ended piece by piece. */
export function voidLeases(state: RegistryState, node: FleetNode, code: FaultCode, message: string): void {
  for (const lease of node.leases.values()) state.lost.push({ lease, code, message })
  node.leases = new Map()
  node.recount()
}
