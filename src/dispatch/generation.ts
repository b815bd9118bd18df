/**
 * One generation of pools: every live node in the pool of its signature, every demand matched with the pools that meet
 * it. What is new is matched a few steps at a time: a demand or a shape that nobody asked for before does not hold up
 * the turn, and whoever waits for it is served as the matching goes on.
 */
import { Dictionary, labelsThatMatter, Profile } from './capability.ts'
import type { Demand } from './demand.ts'
import type { FleetNode } from './fleetnode.ts'
import type { Term } from './node.ts'
import { addMatch, bucketCount, dropMatch, type Place, Pool, type Row, type View } from './pool.ts'
import { compileAll, labelsAsked, type PoolRules } from './requirement.ts'

/** So many pools without nodes make a new generation worth while. */
const manyEmpty = 1_000

/** All pools as they stand in the same moment. */
export class Generation {
  readonly number: number
  /** Which of a node's two places is this generation's. */
  readonly side: 0 | 1
  readonly rules: PoolRules
  readonly pools: Pool[] = []
  readonly #labels: Set<string>
  readonly #dictionary = new Dictionary()
  readonly #usedShare: number
  readonly #byKey = new Map<string, Pool>()
  readonly #views = new Map<Demand, View>()
  /** Views and rows that are not matched to the end. */
  readonly #unscanned: View[] = []
  readonly #unbuilt: Row[] = []
  #emptyCount = 0

  constructor(number: number, rules: PoolRules, labels: ReadonlySet<string>, usedShare: number) {
    this.number = number
    this.side = (number & 1) as 0 | 1
    this.rules = rules
    this.#labels = new Set(labels)
    this.#usedShare = usedShare
  }

  /** Whether matching is left to do. */
  get unfinished(): boolean {
    return this.#unscanned.length > 0 || this.#unbuilt.length > 0
  }

  /** Whether so much in it is out of use that building it anew is worth while. */
  get worn(): boolean {
    return this.#emptyCount > manyEmpty && this.#emptyCount * 2 > this.pools.length
  }

  /** The place of a node, if it has joined this generation. */
  placeOf(node: FleetNode): Place | null {
    const place = node.places[this.side]
    return place !== null && place.pool.generation === this.number ? place : null
  }

  join(node: FleetNode): void {
    const labels = labelsThatMatter(node.labels, this.#labels)
    const key = `${node.servicesKey}${JSON.stringify(labels)}`
    let pool = this.#byKey.get(key)
    if (pool === undefined) pool = this.#addPool(key, new Profile(this.#dictionary, node.services, labels))
    else if (pool.members.length === 0) this.#emptyCount -= 1
    const place: Place = { pool, member: pool.members.length, bucket: [], position: [] }
    node.places[this.side] = place
    pool.members.push(node)
    for (const row of pool.rows) {
      if (row.built === place.member) row.built += 1
      this.#settle(node, place, row)
    }
  }

  leave(node: FleetNode): void {
    const place = this.placeOf(node)
    if (place === null) return
    const { pool, member } = place
    for (const row of pool.rows)
      if ((place.bucket[row.number] ?? -1) >= 0) row.takeOut(node, place, this.side)
    node.places[this.side] = null
    const last = pool.members.pop()!
    const lastMember = pool.members.length
    if (last !== node) {
      pool.members[member] = last
      const moved = last.places[this.side]!
      moved.member = member
      for (const row of pool.rows)
        if (member < row.built && lastMember >= row.built) this.#settle(last, moved, row)
    }
    for (const row of pool.rows) row.built = Math.min(row.built, lastMember)
    if (lastMember === 0) this.#emptyCount += 1
  }

  /** Puts a node into the buckets that its room and load ask for now. */
  refresh(node: FleetNode): void {
    const place = this.placeOf(node)
    if (place === null) return
    const { rows } = place.pool
    for (let i = 0; i < rows.length; i += 1) this.#settle(node, place, rows[i]!)
  }

  /** A demand as this generation sees it; asked for the first time, its matching begins. */
  view(demand: Demand, labelled: (label: string) => boolean): View {
    const known = this.#views.get(demand)
    if (known !== undefined) return known
    const view = this.#look(demand, labelled)
    this.#views.set(demand, view)
    if (!view.blind && this.pools.length > 0) this.#unscanned.push(view)
    return view
  }

  drop(demand: Demand): void {
    const view = this.#views.get(demand)
    if (view === undefined) return
    this.#views.delete(demand)
    for (const match of view.matches) dropMatch(match)
    const at = this.#unscanned.indexOf(view)
    if (at >= 0) this.#unscanned.splice(at, 1)
  }

  /**
   * Goes on matching for so many steps, and answers how many are left. Calls back with each node that a row has found
   * room on, and with each demand that has found a pool with room while tasks wait with it.
   */
  advance(steps: number, hasRoom: (node: FleetNode) => void, hasPool: (demand: Demand) => void): number {
    let left = steps
    while (left > 0) {
      const row = this.#unbuilt[this.#unbuilt.length - 1]
      if (row !== undefined) {
        left -= this.#build(row, left, hasRoom)
        if (row.built >= row.pool.members.length) this.#unbuilt.splice(this.#unbuilt.indexOf(row), 1)
        continue
      }
      const view = this.#unscanned[this.#unscanned.length - 1]
      if (view === undefined) break
      if (view.scanned < this.pools.length) {
        const { length } = view.open
        this.#match(view, this.pools[view.scanned]!)
        view.scanned += 1
        left -= 1
        if (view.open.length > length && view.demand.line.size > 0) hasPool(view.demand)
      } else {
        this.#unscanned.splice(this.#unscanned.indexOf(view), 1)
      }
    }
    return left
  }

  /** How many nodes a rule finds. */
  count(requires: readonly Term[]): number {
    const check = compileAll(requires, this.#dictionary, this.rules)
    return this.pools.reduce((sum, pool) => sum + (check(pool.profile) ? pool.members.length : 0), 0)
  }

  #look(demand: Demand, labelled: (label: string) => boolean): View {
    const asked = labelsAsked([...demand.requires, ...demand.prefers], this.rules)
    let blind = false
    for (const label of asked) {
      if (this.#labels.has(label)) continue
      // A label that no node has makes no difference between them: from now on this generation knows it.
      if (labelled(label)) blind = true
      else this.#labels.add(label)
    }
    return {
      demand,
      check: compileAll(demand.requires, this.#dictionary, this.rules),
      prefer: demand.prefers.length > 0 ? compileAll(demand.prefers, this.#dictionary, this.rules) : null,
      blind,
      scanned: 0,
      matches: [],
      open: [],
      cursor: 0,
    }
  }

  #addPool(key: string, profile: Profile): Pool {
    const pool = new Pool(this.number, key, profile)
    this.pools.push(pool)
    this.#byKey.set(key, pool)
    for (const view of this.#views.values()) {
      if (view.blind || view.scanned !== this.pools.length - 1) continue
      this.#match(view, pool)
      view.scanned += 1
    }
    return pool
  }

  #match(view: View, pool: Pool): void {
    if (!view.check(pool.profile)) return
    const row = pool.row(view.demand.shape)
    addMatch(view, row, view.prefer?.(pool.profile) === true)
    if (row.built < pool.members.length) this.#unbuilt.push(row)
  }

  #build(row: Row, steps: number, hasRoom: (node: FleetNode) => void): number {
    const { members } = row.pool
    const from = row.built
    for (; row.built < members.length && row.built - from < steps; ) {
      const node = members[row.built]!
      row.built += 1
      this.#settle(node, node.places[this.side]!, row)
      if (node.places[this.side]!.bucket[row.number]! >= 0) hasRoom(node)
    }
    // A row without steps to do costs one, so that the loop around always ends.
    return Math.max(1, row.built - from)
  }

  #settle(node: FleetNode, place: Place, row: Row): void {
    const was = place.bucket[row.number] ?? -1
    const next = this.#bucketOf(node, row, was)
    if (next === was && place.bucket[row.number] !== undefined) return
    if (was >= 0) row.takeOut(node, place, this.side)
    if (next >= 0) row.put(node, place, next)
    else place.bucket[row.number] = -1
  }

  #bucketOf(node: FleetNode, row: Row, was: number): number {
    if (!node.open) return -1
    const { places, shape } = row
    let fullest = 0
    for (let i = 0; i < places.length; i += 1) {
      const place = places[i]!
      const slots = node.slots[place]!
      const taken = node.used[place]! + node.foreign[place]!
      if (node.shut[place] || slots - taken < shape.weights[i]!) return -1
      if (taken / slots > fullest) fullest = taken / slots
    }
    const load = Math.min(1, node.reported + node.uncounted / node.totalSlots)
    const score = (this.#usedShare * fullest + (1 - this.#usedShare) * load) * bucketCount
    // A quarter of a bucket of patience: a node on the edge does not move with every heartbeat.
    if (was >= 0 && score >= was - 0.25 && score < was + 1.25) return was
    return Math.min(bucketCount - 1, Math.floor(score))
  }
}
