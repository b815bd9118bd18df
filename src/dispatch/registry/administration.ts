/** What operators say about nodes and pools. */

import type { FleetNode } from '../matching/fleet-node.ts'
import { startRebuild } from '../matching/rebuild.ts'
import type { Term } from '../node.ts'
import { letGo } from '../waiting/waiting.ts'
import type { Command } from './command.ts'
import { endAttempt } from './ending.ts'
import { tellDrained } from './leases.ts'
import type { RegistryState } from './registry-state.ts'
import { createTimer } from './timers.ts'

type Of<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>

/** No new work for a node; what it runs may end, until the deadline if there is one. */
export function drain(state: RegistryState, { nodeId, on, deadlineAt, epoch: only }: Of<'drain'>): void {
  const node = state.fleet.find(nodeId)
  if (node === undefined || node.status === 'gone') return
  const { epoch } = node
  if (only !== undefined && only !== epoch) return
  if (node.drainTimer !== null) state.timers.clear(node.drainTimer)
  node.draining = on
  if (!on) {
    state.reopen(node)
    return
  }
  if (node.heldFor !== null) letGo(state, node.heldFor)
  state.refresh(node)
  state.emit({ kind: 'drainFrame', nodeId, epoch })
  tellDrained(state, node)
  if (node.leases.size > 0 && deadlineAt !== null) {
    node.drainTimer ??= createTimer('drain', node)
    state.timers.set(node.drainTimer, deadlineAt)
  }
}

/** The drain's deadline passed: what still runs goes on elsewhere, if it has an attempt left for that. */
export function drainDue(state: RegistryState, node: FleetNode): void {
  const message = `Node "${node.nodeId}" was drained before the task ended.`
  for (const { task } of [...node.leases.values()]) {
    if (task === null || !task.spec.retryable || task.spec.attempt >= task.spec.maxAttempts) continue
    endAttempt(state, task, 'drained', { code: 'drained', message })
  }
}

/** Closes or opens a node, or one service of it, for new work; kept while the node is away. */
export function cordon(state: RegistryState, { nodeId, service, on }: Of<'cordon'>): void {
  state.fleet.cordon(nodeId, service ?? '', on)
  const node = state.fleet.find(nodeId)
  if (node === undefined || node.status === 'gone') return
  state.reopen(node)
  const held = node.heldFor
  if (held !== null && (node.cordoned || !node.couldFit(held.demand.shape))) letGo(state, held)
}

/** Gives a pool its rule; one that it has already changes nothing. */
export function definePool(state: RegistryState, name: string, requires: readonly Term[]): void {
  const known = state.rules.get(name)
  if (known !== undefined && JSON.stringify(known) === JSON.stringify(requires)) return
  state.rules.set(name, requires)
  startRebuild(state)
}
