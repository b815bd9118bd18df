/** Serving those who wait: who is next when a node has room, and when room is made for one who needs much. */

import { choose } from '../matching/choose-node.ts'
import type { Demand } from '../matching/demand.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import { assign } from '../registry/placing.ts'
import type { RegistryState } from '../registry/registry-state.ts'
import type { TaskEntry } from '../registry/task-entry.ts'
import type { WaitSeat } from './wait-queue.ts'
import { letGo } from './waiting.ts'

const noWishes = { sticky: undefined, shunned: null }

/** Serves those who wait for what a node has room for, one after the other; the rest later, if it takes too long. */
export function serve(state: RegistryState, node: FleetNode, until: number): void {
  while (state.waitingCount > 0 && node.foreignTasks.unsure.size === 0) {
    if (state.work.done >= until) {
      state.roomy.add(node)
      return
    }
    const held = node.heldFor
    if (held !== null) {
      if (!meets(state, node, held.demand)) {
        letGo(state, held)
        return
      }
      if (!node.fits(held.demand.shape)) return
      serveSeat(state, held.seat!, node)
      continue
    }
    if (!node.open) return
    const seat = nextFor(state, node)
    if (seat === null) return
    if (!node.fits(seat.task.demand.shape)) {
      hold(state, seat.task, node)
      return
    }
    serveSeat(state, seat, node)
  }
}

/** Whether a node is still one for a demand: pools may have been defined anew. */
function meets(state: RegistryState, node: FleetNode, demand: Demand): boolean {
  const place = state.generation.placeOf(node)
  const view = state.view(demand)
  return place !== null && !view.blind && view.check(place.pool.profile)
}

function serveSeat(state: RegistryState, seat: WaitSeat, node: FleetNode): void {
  const { tenants, now } = state
  state.work.done += 1
  tenants.serve(seat.tenant, seat.task.demand.shape.total)
  state.msPerWake += (Math.min(10_000, now - state.lastWakeAt) - state.msPerWake) / 16
  state.lastWakeAt = now
  assign(state, seat.task, node)
}

/** Of all lines that the node's pool is a match for, the first who fits, or has waited so long that room is made. */
function nextFor(state: RegistryState, node: FleetNode): WaitSeat | null {
  const { generation, policy, now } = state
  const place = generation.placeOf(node)
  if (place === null) return null
  let best: WaitSeat | null = null
  for (const row of place.pool.rows) {
    state.work.small(1 + row.matches.length)
    const hasRoom = (place.bucket[row.number] ?? -1) >= 0
    for (const { view } of row.matches) {
      const { line, shape } = view.demand
      if (line.size === 0) continue
      state.work.small(1)
      const seat = line.peek(now, policy.ageMs)!
      if (!hasRoom && !mayHold(state, seat, node, shape)) continue
      if (best === null || before(seat, best)) best = seat
    }
  }
  return best
}

function mayHold(state: RegistryState, seat: WaitSeat, node: FleetNode, shape: Demand['shape']): boolean {
  const { policy, now, holdCount, fleet } = state
  if (now - seat.since < policy.holdAfterMs || seat.task.holds !== null) return false
  return holdCount < Math.max(1, fleet.size >> 3) && node.couldFit(shape)
}

function before(a: WaitSeat, b: WaitSeat): boolean {
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

/** Serves whoever waits for the nodes that have got room, for so many steps; answers how many are left. */
export function serveRoomy(state: RegistryState, steps: number): number {
  const until = state.work.done + steps
  for (const node of state.roomy) {
    if (state.work.done >= until) break
    state.roomy.delete(node)
    state.work.small(1)
    serve(state, node, until)
  }
  return Math.max(0, until - state.work.done)
}

/** Tries lines with all pools, for so many steps: after a swap. */
export function wake(state: RegistryState, steps: number): number {
  const { work, toWake } = state
  const until = work.done + steps
  for (const demand of toWake) {
    for (;;) {
      if (work.done >= until) return 0
      work.done += 1
      const node = demand.line.size === 0 ? null : anyFor(state, demand)
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
