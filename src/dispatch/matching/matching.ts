/**
 * The work of matching demands with pools, a few steps at a time, so that a new demand or a new pool does not hold up the
 * turn.
 *
 *   rows that have not looked at their nodes ─▶ views that have not looked at all pools ─▶ dropped views
 */

import type { Demand } from './demand.ts'
import type { RegistryNode } from './node-table.ts'
import { addMatch, dropMatch, type Pool, type Row, type View } from './pool.ts'

/** Up to this many views look at a new pool at once. */
const maxShownAtOnce = 32

/** Called with what matching finds. */
export interface Finder {
  /** A row has found free slots on a node. */
  readonly hasCapacity: (node: RegistryNode) => void
  /** A demand has found a pool with free slots while tasks wait with it. */
  readonly hasPool: (demand: Demand) => void
}

/** What a generation has still to match. */
export class Matching {
  readonly #pools: readonly Pool[]
  readonly #work: Work
  /** Puts a node where it fits in a row; answers whether it has free slots. */
  readonly #settle: (node: RegistryNode, row: Row) => boolean
  readonly #views: View[] = []
  /** The view whose turn it is. The `#checked` views before it, around the end of the list, have looked at all pools. */
  #cursor = 0
  #checked = 0
  readonly #unbuilt: Row[] = []
  /** Views out of use, whose matches are still in the rows. */
  readonly #dropped: View[] = []

  constructor(pools: readonly Pool[], work: Work, settle: (node: RegistryNode, row: Row) => boolean) {
    this.#pools = pools
    this.#work = work
    this.#settle = settle
  }

  /** Whether a match may be missing. */
  get unfinished(): boolean {
    return this.#unbuilt.length > 0 || !this.#isChecked
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
    if (this.#isChecked) this.#cursor = this.#views.length
    else this.#checked = 0
    this.#put(view, this.#views.length)
  }

  dropView(view: View): void {
    const wasChecked = this.#isChecked
    view.dropped = true
    const last = this.#views.pop()!
    if (last !== view) this.#put(last, view.position)
    // The last view may have moved among the checked ones: all are checked again.
    this.#checked = wasChecked ? this.#views.length : 0
    if (this.#cursor >= this.#views.length) this.#cursor = 0
    if (view.matches.length > 0) this.#dropped.push(view)
  }

  /** The last of the pools is new: a few views look at it at once, many do so piece by piece. */
  addPool(pool: Pool): void {
    if (!this.#isChecked || this.#views.length > maxShownAtOnce) {
      this.#checked = 0
      return
    }
    for (const view of this.#views) {
      if (view.blind) continue
      this.#match(view, pool)
      view.scanned += 1
    }
  }

  /** Continues for up to `steps` steps, `first` before other views. Returns the steps that are left. */
  advance(steps: number, finder: Finder, first: View | null): number {
    const until = this.#work.done + steps
    while (this.#work.done < until && this.#step(until, finder, first));
    return Math.max(0, until - this.#work.done)
  }

  /** False: nothing is left to do. */
  #step(until: number, { hasCapacity, hasPool }: Finder, first: View | null): boolean {
    const row = this.#unbuilt[this.#unbuilt.length - 1]
    if (row !== undefined) {
      this.#build(row, until, hasCapacity)
      if (row.built >= row.pool.members.length) this.#unbuilt.pop()
    } else if (first !== null && this.#isBehind(first)) {
      this.#scan(first, hasPool)
    } else if (!this.#isChecked) {
      this.#check(this.#views[this.#cursor]!, hasPool)
    } else if (this.#dropped.length > 0) {
      this.#forgetMatch()
    } else {
      return false
    }
    return true
  }

  /** Every view has looked at all pools. */
  get #isChecked(): boolean {
    return this.#checked >= this.#views.length
  }

  #check(view: View, hasPool: Finder['hasPool']): void {
    if (this.#isBehind(view)) {
      this.#scan(view, hasPool)
      return
    }
    this.#work.small(1)
    this.#checked += 1
    this.#cursor = (this.#cursor + 1) % this.#views.length
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

  #match(view: View, pool: Pool): void {
    this.#work.done += view.cost
    if (!view.check(pool.profile)) return
    const row = pool.row(view.demand.shape)
    addMatch(view, row, view.prefers(pool.profile))
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

/**
 * How much the registry has done, in steps of about a microsecond or two: a node joined, a pool looked at, an attempt
 * ended. Whatever could grow with the fleet counts itself here as it is done, so that a turn can be bounded by work
 * and not by how many things it was about.
 */
export class Work {
  done = 0

  /** Counts things that are so small that only many of them are a step. */
  small(count: number): void {
    this.done += count / 8
  }
}
