/** Serving those who wait: who is next when a node has free slots, and when slots are kept free for a task that needs many. */

import { choose } from '../matching/choose-node.ts'
import type { Demand } from '../matching/demand.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import { assign } from '../registry/placing.ts'
import type { RegistryState } from '../registry/registry-state.ts'
import type { TaskEntry } from '../registry/task-entry.ts'
import type { WaitEntry } from './wait-queue.ts'
import { letGo } from './waiting.ts'

const noWishes = { sticky: undefined, shunned: null }

/** Serves those who wait for what a node has free slots for, one after the other; the rest later, if it takes too long. */
export function serve(state: RegistryState, node: FleetNode, until: number): void {
  while (state.waitingCount > 0 && node.foreignTasks.unsure.size === 0) {
    if (state.work.done >= until) {
      state.freedNodes.add(node)
      return
    }
    const held = node.heldFor
    if (held !== null) {
      if (!meets(state, node, held.demand)) {
        letGo(state, held)
        return
      }
      if (!node.fits(held.demand.shape)) return
      serveEntry(state, held.entry!, node)
      continue
    }
    if (!node.open) return
    const entry = nextFor(state, node)
    if (entry === null) return
    if (!node.fits(entry.task.demand.shape)) {
      hold(state, entry.task, node)
      return
    }
    serveEntry(state, entry, node)
  }
}

/** Whether a node is still one for a demand: pools may have been defined anew. */
function meets(state: RegistryState, node: FleetNode, demand: Demand): boolean {
  const membership = state.generation.membershipOf(node)
  const view = state.view(demand)
  return membership !== null && !view.blind && view.check(membership.pool.profile)
}

function serveEntry(state: RegistryState, entry: WaitEntry, node: FleetNode): void {
  const { tenants, now } = state
  state.work.done += 1
  tenants.serve(entry.tenant, entry.task.demand.shape.total)
  state.msPerWake += (Math.min(10_000, now - state.lastWakeAt) - state.msPerWake) / 16
  state.lastWakeAt = now
  assign(state, entry.task, node)
}

/** Of all wait queues that the node's pool is a match for, the first who fits, or has waited so long that slots are kept free. */
function nextFor(state: RegistryState, node: FleetNode): WaitEntry | null {
  const { generation, policy, now } = state
  const membership = generation.membershipOf(node)
  if (membership === null) return null
  let best: WaitEntry | null = null
  for (const row of membership.pool.rows) {
    state.work.small(1 + row.matches.length)
    const hasCapacity = (membership.bucket[row.number] ?? -1) >= 0
    for (const { view } of row.matches) {
      const { waitQueue, shape } = view.demand
      if (waitQueue.size === 0) continue
      state.work.small(1)
      const entry = waitQueue.peek(now, policy.ageMs)!
      if (!hasCapacity && !mayHold(state, entry, node, shape)) continue
      if (best === null || before(entry, best)) best = entry
    }
  }
  return best
}

function mayHold(state: RegistryState, entry: WaitEntry, node: FleetNode, shape: Demand['shape']): boolean {
  const { policy, now, holdCount, fleet } = state
  if (now - entry.since < policy.holdAfterMs || entry.task.holds !== null) return false
  return holdCount < Math.max(1, fleet.size >> 3) && node.couldFit(shape)
}

function before(a: WaitEntry, b: WaitEntry): boolean {
  if (a.level !== b.level) return a.level > b.level
  if (a.tenant.pass !== b.tenant.pass) return a.tenant.pass < b.tenant.pass
  return a.since < b.since
}

/** Keeps a node free for a task that needs more of it than is free at once; others would take each slot before it. */
function hold(state: RegistryState, task: TaskEntry, node: FleetNode): void {
  task.holds = node
  node.heldFor = task
  state.holdCount += 1
  state.refresh(node)
  state.tell({ name: 'node.held', nodeId: node.nodeId, taskId: task.spec.taskId })
}

/** Serves waiting tasks on the nodes with newly free slots, for up to `steps` steps. Returns the steps that are left. */
export function serveFreedNodes(state: RegistryState, steps: number): number {
  const until = state.work.done + steps
  for (const node of state.freedNodes) {
    if (state.work.done >= until) break
    state.freedNodes.delete(node)
    state.work.small(1)
    serve(state, node, until)
  }
  return Math.max(0, until - state.work.done)
}

/** Tries wait queues with all pools, for so many steps: after a swap. */
export function wake(state: RegistryState, steps: number): number {
  const { work, toWake } = state
  const until = work.done + steps
  for (const demand of toWake) {
    for (;;) {
      if (work.done >= until) return 0
      work.done += 1
      const node = demand.waitQueue.size === 0 ? null : anyFor(state, demand)
      if (node === null) break
      serve(state, node, until)
    }
    toWake.delete(demand)
  }
  return Math.max(0, until - work.done)
}

function anyFor(state: RegistryState, demand: Demand): FleetNode | null {
  return choose(state.generation, state.view(demand), noWishes, state.dice, state.policy)
}
