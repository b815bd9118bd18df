/** Serving those who wait: who is next when a node has room, and when room is made for one who needs much. */

import { choose } from '../matching/choose-node.ts'
import type { Demand } from '../matching/demand.ts'
import type { FleetNode } from '../matching/fleet-node.ts'
import { assign } from '../registry/placing.ts'
import type { Books } from '../registry/registry-state.ts'
import type { TaskEntry } from '../registry/task-entry.ts'
import type { WaitSeat } from './wait-queue.ts'
import { letGo } from './waiting.ts'

const noWishes = { sticky: undefined, shunned: null }

/** Serves those who wait for what a node has room for, one after the other; the rest later, if it takes too long. */
export function serve(books: Books, node: FleetNode, until: number): void {
  while (books.waitingCount > 0 && node.strangers.unsure.size === 0) {
    if (books.work.done >= until) {
      books.roomy.add(node)
      return
    }
    const held = node.heldFor
    if (held !== null) {
      if (!meets(books, node, held.demand)) {
        letGo(books, held)
        return
      }
      if (!node.fits(held.demand.shape)) return
      serveSeat(books, held.seat!, node)
      continue
    }
    if (!node.open) return
    const seat = nextFor(books, node)
    if (seat === null) return
    if (!node.fits(seat.task.demand.shape)) {
      hold(books, seat.task, node)
      return
    }
    serveSeat(books, seat, node)
  }
}

/** Whether a node is still one for a demand: pools may have been defined anew. */
function meets(books: Books, node: FleetNode, demand: Demand): boolean {
  const place = books.generation.placeOf(node)
  const view = books.view(demand)
  return place !== null && !view.blind && view.check(place.pool.profile)
}

function serveSeat(books: Books, seat: WaitSeat, node: FleetNode): void {
  const { tenants, now } = books
  books.work.done += 1
  tenants.serve(seat.tenant, seat.task.demand.shape.total)
  books.msPerWake += (Math.min(10_000, now - books.lastWakeAt) - books.msPerWake) / 16
  books.lastWakeAt = now
  assign(books, seat.task, node)
}

/** Of all lines that the node's pool is a match for, the first who fits, or has waited so long that room is made. */
function nextFor(books: Books, node: FleetNode): WaitSeat | null {
  const { generation, policy, now } = books
  const place = generation.placeOf(node)
  if (place === null) return null
  let best: WaitSeat | null = null
  for (const row of place.pool.rows) {
    books.work.small(1 + row.matches.length)
    const hasRoom = (place.bucket[row.number] ?? -1) >= 0
    for (const { view } of row.matches) {
      const { line, shape } = view.demand
      if (line.size === 0) continue
      books.work.small(1)
      const seat = line.peek(now, policy.ageMs)!
      if (!hasRoom && !mayHold(books, seat, node, shape)) continue
      if (best === null || before(seat, best)) best = seat
    }
  }
  return best
}

function mayHold(books: Books, seat: WaitSeat, node: FleetNode, shape: Demand['shape']): boolean {
  const { policy, now, holdCount, fleet } = books
  if (now - seat.since < policy.holdAfterMs || seat.task.holds !== null) return false
  return holdCount < Math.max(1, fleet.size >> 3) && node.couldFit(shape)
}

function before(a: WaitSeat, b: WaitSeat): boolean {
  if (a.level !== b.level) return a.level > b.level
  if (a.tenant.pass !== b.tenant.pass) return a.tenant.pass < b.tenant.pass
  return a.since < b.since
}

/** Keeps a node free for a task that needs more of it than is free at once; others would take each slot before it. */
function hold(books: Books, task: TaskEntry, node: FleetNode): void {
  task.holds = node
  node.heldFor = task
  books.holdCount += 1
  books.refresh(node)
  books.tell({ name: 'node.held', nodeId: node.nodeId, taskId: task.spec.taskId })
}

/** Serves whoever waits for the nodes that have got room, for so many steps; answers how many are left. */
export function serveRoomy(books: Books, steps: number): number {
  const until = books.work.done + steps
  for (const node of books.roomy) {
    if (books.work.done >= until) break
    books.roomy.delete(node)
    books.work.small(1)
    serve(books, node, until)
  }
  return Math.max(0, until - books.work.done)
}

/** Tries lines with all pools, for so many steps: after a swap. */
export function wake(books: Books, steps: number): number {
  const { work, toWake } = books
  const until = work.done + steps
  for (const demand of toWake) {
    for (;;) {
      if (work.done >= until) return 0
      work.done += 1
      const node = demand.line.size === 0 ? null : anyFor(books, demand)
      if (node === null) break
      serve(books, node, until)
    }
    toWake.delete(demand)
  }
  return Math.max(0, until - work.done)
}

function anyFor(books: Books, demand: Demand): FleetNode | null {
  return choose(books.generation, books.view(demand), noWishes, books.dice, books.policy)
}
