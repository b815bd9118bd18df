/** A service rests on a node that has no free slots for it after all: no task is sent there for a while. */

import type { FleetNode } from '../matching/fleet-node.ts'
import type { RegistryState } from './registry-state.ts'
import { createTimer } from './timers.ts'

/** The longest rest that a node may ask for. */
const longestMs = 3_600_000

/** Begins or prolongs a rest. */
export function rest(state: RegistryState, node: FleetNode, service: string, forMs: number): void {
  const at = node.serviceIndex(service)
  if (at < 0) return
  node.restsUntil[at] = state.now + Math.min(Math.max(forMs, 1), longestMs)
  node.restTimer ??= createTimer('rest', node)
  if (node.restTimer.position < 0 || node.restTimer.at > node.restsUntil[at]) {
    state.timers.set(node.restTimer, node.restsUntil[at])
  }
  state.reopen(node)
}

/** A rest is over: the next one of that node is waited for. */
export function rested(state: RegistryState, node: FleetNode): void {
  state.reopen(node)
  const next = Math.min(...node.restsUntil.filter((at) => at > state.now))
  if (next !== Number.POSITIVE_INFINITY) state.timers.set(node.restTimer!, next)
}
