/**
 * The work of matching demands with pools, a few steps at a time: a demand that nobody asked for before, or a pool that
 * was not there, does not hold up the turn.
 *
 *   rows that have not looked at their nodes ─▶ new views, at all pools ─▶ new pools, at all views ─▶ dropped views
 */

import type { Work } from '../registry/work-counter.ts'
import type { Demand } from './demand.ts'
import type { FleetNode } from './fleet-node.ts'
import { addMatch, dropMatch, type Pool, type Row, type View } from './pool.ts'

/** So many views look at a new pool in the same moment. */
const maxShownAtOnce = 32

/** Who is told what matching has found. */
export interface Finder {
  /** A row has found free slots on a node. */
  readonly hasCapacity: (node: FleetNode) => void
  /** A demand has found a pool with free slots while tasks wait with it. */
  readonly hasPool: (demand: Demand) => void
}

/** What a generation has still to match. */
export class Matching {
  readonly #pools: readonly Pool[]
  readonly #work: Work
  /** Puts a node where it fits in a row; answers whether it has free slots. */
  readonly #settle: (node: FleetNode, row: Row) => boolean
  /** All views. Those before `#viewCursor` have looked at the pool at `#poolCursor`, if it was their next. */
  readonly #views: View[] = []
  #viewCursor = 0
  /** Pools before this one have been shown to all views that had looked at those before them. */
  #poolCursor = 0
  /** Views that look at all pools by themselves: they are new. */
  readonly #behind: View[] = []
  readonly #unbuilt: Row[] = []
  /** Views out of use, whose matches are still in the rows. */
  readonly #dropped: View[] = []

  constructor(pools: readonly Pool[], work: Work, settle: (node: FleetNode, row: Row) => boolean) {
    this.#pools = pools
    this.#work = work
    this.#settle = settle
  }

  /** Whether a match may be missing. */
  get unfinished(): boolean {
    return this.#behind.length > 0 || this.#unbuilt.length > 0 || this.#poolCursor < this.#pools.length
  }

  /** Whether anything is left for `advance`. */
  get hasWork(): boolean {
    return this.unfinished || this.#dropped.length > 0
  }

  /** Whether a view may still find free slots that it does not know of. */
  mayFind(view: View): boolean {
    return view.blind || view.scanned < this.#pools.length || this.#unbuilt.length > 0
  }

  addView(view: View): void {
    this.#put(view, this.#views.length)
    if (!view.blind && this.#pools.length > 0) this.#behind.push(view)
  }

  dropView(view: View): void {
    view.dropped = true
    let gap = view.position
    if (gap < this.#viewCursor) {
      // Who has had its turn stays before the cursor, who has not stays behind it.
      this.#viewCursor -= 1
      this.#put(this.#views[this.#viewCursor]!, gap)
      gap = this.#viewCursor
    }
    const last = this.#views.pop()!
    if (gap < this.#views.length) this.#put(last, gap)
    if (view.matches.length > 0) this.#dropped.push(view)
  }

  /** The last of the pools is new: a few views look at it at once, many do so piece by piece. */
  addPool(pool: Pool): void {
    const number = this.#pools.length - 1
    if (this.#poolCursor < number || this.#views.length > maxShownAtOnce) return
    for (const view of this.#views) {
      if (view.blind || view.scanned !== number) continue
      this.#match(view, pool)
      view.scanned += 1
    }
    this.#poolCursor += 1
  }

  /** Goes on for so many steps, `first` before other views, and answers how many are left. */
  advance(steps: number, finder: Finder, first: View | null): number {
    const until = this.#work.done + steps
    while (this.#work.done < until && this.#step(until, finder, first));
    return Math.max(0, until - this.#work.done)
  }

  /** False: nothing is left to do. */
  #step(until: number, { hasCapacity, hasPool }: Finder, first: View | null): boolean {
    const row = this.#unbuilt[this.#unbuilt.length - 1]
    const view = this.#behind[this.#behind.length - 1]
    if (row !== undefined) {
      this.#build(row, until, hasCapacity)
      if (row.built >= row.pool.members.length) this.#unbuilt.pop()
    } else if (first !== null && this.#isBehind(first)) {
      this.#scan(first, hasPool)
    } else if (view !== undefined) {
      if (this.#isBehind(view)) this.#scan(view, hasPool)
      else this.#behind.pop()
    } else if (this.#poolCursor < this.#pools.length) {
      this.#show(hasPool)
    } else if (this.#dropped.length > 0) {
      this.#forgetMatch()
    } else {
      return false
    }
    return true
  }

  #isBehind(view: View): boolean {
    return !view.dropped && !view.blind && view.scanned < this.#pools.length
  }

  #build(row: Row, until: number, hasCapacity: Finder['hasCapacity']): void {
    const { members } = row.pool
    // A row without anything to do costs a step too, so that the loop around always ends.
    do {
      this.#work.done += 1
      const node = members[row.built]
      if (node === undefined) return
      row.built += 1
      if (this.#settle(node, row)) hasCapacity(node)
    } while (this.#work.done < until)
  }

  /** A view looks at its next pool. */
  #scan(view: View, hasPool: Finder['hasPool']): void {
    const { length } = view.open
    this.#match(view, this.#pools[view.scanned]!)
    view.scanned += 1
    if (view.open.length > length && view.demand.waitQueue.size > 0) hasPool(view.demand)
  }

  /** The new pool whose turn it is is shown to the next view. */
  #show(hasPool: Finder['hasPool']): void {
    const view = this.#views[this.#viewCursor]
    this.#work.small(1)
    if (view === undefined) {
      this.#poolCursor += 1
      this.#viewCursor = 0
      return
    }
    this.#viewCursor += 1
    if (view.scanned === this.#poolCursor && !view.blind) this.#scan(view, hasPool)
  }

  #match(view: View, pool: Pool): void {
    this.#work.done += view.cost
    if (!view.check(pool.profile)) return
    const row = pool.row(view.demand.shape)
    addMatch(view, row, view.prefer?.(pool.profile) === true)
    if (row.built < pool.members.length) this.#unbuilt.push(row)
  }

  #forgetMatch(): void {
    const view = this.#dropped[this.#dropped.length - 1]!
    const match = view.matches.pop()
    this.#work.small(1)
    if (match === undefined) this.#dropped.pop()
    else dropMatch(match)
  }

  #put(view: View, position: number): void {
    this.#views[position] = view
    view.position = position
  }
}
