/**
 * Matches demands with pools a few steps at a time, so that a new demand or a new pool does not delay the turn.
 *
 *   rows that have unchecked nodes ─▶ views that have unchecked pools ─▶ matches of dropped views
 */

import type { Demand } from './demand.ts'
import type { RegistryNode } from './node-table.ts'
import { addMatch, dropMatch, type Pool, type Row, type View } from './pool.ts'

/** A new pool is matched with all views at once if there are at most this many. */
const maxMatchedAtOnce = 32

/** Called when matching finds free slots. */
export interface Finder {
  /** A row found a node with free slots. */
  readonly hasCapacity: (node: RegistryNode) => void
  /** A demand with waiting tasks found a pool with free slots. */
  readonly hasPool: (demand: Demand) => void
}

/** The unfinished matching of a generation. */
export class Matching {
  readonly #pools: readonly Pool[]
  readonly #work: Work
  /** Puts a node into its bucket of a row. Returns whether the node has free slots. */
  readonly #settle: (node: RegistryNode, row: Row) => boolean
  readonly #views: View[] = []
  /** The next view to check. The `#checked` views before it, in a ring, were matched with all pools. */
  #cursor = 0
  #checked = 0
  readonly #unbuilt: Row[] = []
  /** Dropped views whose matches are still in the rows. */
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

  /** Whether further matching may find free slots for a view. */
  mayFind(view: View): boolean {
    return view.needsRebuild || view.scanned < this.#pools.length || this.#unbuilt.length > 0
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

  /** Matches the newest pool: with few views at once, with many step by step. */
  addPool(pool: Pool): void {
    if (!this.#isChecked || this.#views.length > maxMatchedAtOnce) {
      this.#checked = 0
      return
    }
    for (const view of this.#views) {
      if (view.needsRebuild) continue
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

  /** All views were matched with all pools. */
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
    return !view.dropped && !view.needsRebuild && view.scanned < this.#pools.length
  }

  #build(row: Row, until: number, hasCapacity: Finder['hasCapacity']): void {
    const { members } = row.pool
    // An empty row costs a step too, so that the caller's loop always ends.
    do {
      this.#work.done += 1
      const node = members[row.built]
      if (node === undefined) return
      row.built += 1
      if (this.#settle(node, row)) hasCapacity(node)
    } while (this.#work.done < until)
  }

  /** Matches a view with its next pool. */
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
 * Counts the work of the registry in steps of one or two microseconds: a node joined, a pool checked, an attempt ended.
 * All work that can grow with the fleet is counted, so that the work bounds a turn.
 */
export class Work {
  done = 0

  /** Counts small pieces of work; eight of them are a step. */
  small(count: number): void {
    this.done += count / 8
  }
}
