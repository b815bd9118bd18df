/** A service rests on a node that has no room for it after all: nobody is sent there for a while. */

import type { FleetNode } from '../matching/fleet-node.ts'
import type { Books } from './registry-state.ts'
import { createTimer } from './timers.ts'

/** The longest rest that a node may ask for. */
const longestMs = 3_600_000

/** Begins or prolongs a rest. */
export function rest(books: Books, node: FleetNode, service: string, forMs: number): void {
  const at = node.placeOf(service)
  if (at < 0) return
  node.restsUntil[at] = books.now + Math.min(Math.max(forMs, 1), longestMs)
  node.restTimer ??= createTimer('rest', node)
  if (node.restTimer.place < 0 || node.restTimer.at > node.restsUntil[at]) {
    books.timers.set(node.restTimer, node.restsUntil[at])
  }
  books.reopen(node)
}

/** A rest is over: the next one of that node is waited for. */
export function rested(books: Books, node: FleetNode): void {
  books.reopen(node)
  const next = Math.min(...node.restsUntil.filter((at) => at > books.now))
  if (next !== Number.POSITIVE_INFINITY) books.timers.set(node.restTimer!, next)
}
