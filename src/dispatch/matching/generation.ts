/**
 * One generation of pools: every live node is in the pool of its profile, and every demand is matched with the pools
 * that meet it. New demands and pools are matched a few steps at a time, so that they do not delay the turn. Waiting
 * tasks are served while matching proceeds.
 */

import type { Term } from '../node.ts'
import type { Demand } from './demand.ts'
import { type Finder, Matching, type Work } from './matching.ts'
import type { RegistryNode } from './node-table.ts'
import { bucketCount, Pool, type PoolMembership, type Row, type View } from './pool.ts'
import { allHold, labelsAsked, labelsThatMatter, type PoolRules, type Profile } from './requirement.ts'

/** A new generation is built when more pools than this, and more than half of all, have no nodes. */
const manyEmpty = 1_000

/** All pools of one rebuild. */
export class Generation {
  readonly number: number
  /** Which of a node's two memberships is this generation's. */
  readonly side: 0 | 1
  readonly rules: PoolRules
  readonly pools: Pool[] = []
  readonly #labels = new Set<string>()
  readonly #usedShare: number
  readonly #byKey = new Map<string, Pool>()
  readonly #views = new Map<Demand, View>()
  readonly #matching: Matching
  readonly #work: Work
  #emptyCount = 0

  constructor(number: number, rules: PoolRules, usedShare: number, work: Work) {
    this.number = number
    this.side = (number & 1) as 0 | 1
    this.rules = rules
    this.#usedShare = usedShare
    this.#work = work
    this.#matching = new Matching(this.pools, work, (node, row) => {
      const membership = node.memberships[this.side]!
      this.#settle(node, membership, row)
      return membership.bucket[row.number]! >= 0
    })
  }

  /** Whether matching is left to do. */
  get unfinished(): boolean {
    return this.#matching.unfinished
  }

  /** Whether anything is left for `advance`. */
  get hasWork(): boolean {
    return this.#matching.hasWork
  }

  /** Whether so many pools are empty that a rebuild is worthwhile. */
  get hasManyEmptyPools(): boolean {
    return this.#emptyCount > manyEmpty && this.#emptyCount * 2 > this.pools.length
  }

  /** The membership of a node, if it has joined this generation. */
  membershipOf(node: RegistryNode): PoolMembership | null {
    const membership = node.memberships[this.side]
    return membership !== null && membership.pool.generation === this.number ? membership : null
  }

  /** Distinguishes these labels. Call it only before the first node joins. */
  addLabels(labels: Iterable<string>): void {
    for (const label of labels) this.#labels.add(label)
  }

  join(node: RegistryNode): void {
    const labels = labelsThatMatter(node.labels, this.#labels)
    const key = `${node.servicesKey}${JSON.stringify(labels)}`
    let pool = this.#byKey.get(key)
    if (pool === undefined) pool = this.#addPool(key, { services: node.services, labels })
    else if (pool.members.length === 0) this.#emptyCount -= 1
    const membership: PoolMembership = { pool, member: pool.members.length, bucket: [], position: [] }
    node.memberships[this.side] = membership
    pool.members.push(node)
    this.#work.done += 1
    for (const row of pool.rows) {
      if (row.built === membership.member) row.built += 1
      this.#settle(node, membership, row)
    }
  }

  leave(node: RegistryNode): void {
    const membership = this.membershipOf(node)
    if (membership === null) return
    const { pool, member } = membership
    for (const row of pool.rows)
      if ((membership.bucket[row.number] ?? -1) >= 0) row.takeOut(node, membership, this.side)
    node.memberships[this.side] = null
    const last = pool.members.pop()!
    const lastMember = pool.members.length
    if (last !== node) {
      pool.members[member] = last
      const moved = last.memberships[this.side]!
      moved.member = member
      for (const row of pool.rows)
        if (member < row.built && lastMember >= row.built) this.#settle(last, moved, row)
    }
    for (const row of pool.rows) row.built = Math.min(row.built, lastMember)
    if (lastMember === 0) this.#emptyCount += 1
  }

  /** Moves a node into the buckets for its present free slots and load. */
  refresh(node: RegistryNode): void {
    const membership = this.membershipOf(node)
    if (membership === null) return
    const { rows } = membership.pool
    this.#work.small(rows.length)
    const load = loadOf(node)
    for (let i = 0; i < rows.length; i += 1) this.#settle(node, membership, rows[i]!, load)
  }

  /** The view of a demand on this generation. The first call begins its matching. */
  view(demand: Demand, hasLabel: (label: string) => boolean): View {
    const known = this.#views.get(demand)
    if (known !== undefined) return known
    const view = this.#createView(demand, hasLabel)
    this.#views.set(demand, view)
    this.#matching.addView(view)
    return view
  }

  /** Whether a node may have free slots for a demand: true also while matching is unfinished. Changes nothing. */
  mayHaveCapacity(demand: Demand): boolean {
    const view = this.#views.get(demand)
    return view === undefined || view.open.length > 0 || this.#matching.mayFind(view)
  }

  drop(demand: Demand): void {
    const view = this.#views.get(demand)
    if (view === undefined) return
    this.#views.delete(demand)
    this.#matching.dropView(view)
  }

  /** Continues matching for up to `steps` steps, `first` before other views. Returns the steps that are left. */
  advance(steps: number, finder: Finder, first: View | null = null): number {
    return this.#matching.advance(steps, finder, first)
  }

  /** How many nodes meet a rule. */
  count(requires: readonly Term[]): number {
    const pools = this.pools.filter(({ profile }) => allHold(requires, profile, this.rules))
    return pools.reduce((sum, { members }) => sum + members.length, 0)
  }

  #createView(demand: Demand, hasLabel: (label: string) => boolean): View {
    const asked = labelsAsked([...demand.requires, ...demand.prefers], this.rules)
    let needsRebuild = false
    for (const label of asked) {
      if (this.#labels.has(label)) continue
      // No live node has the label, so it splits no pool: this generation can distinguish it from now on.
      if (hasLabel(label)) needsRebuild = true
      else this.#labels.add(label)
    }
    this.#work.done += 1 + demand.key.length / 64
    return {
      demand,
      cost: 1 + demand.key.length / 256,
      position: 0,
      dropped: false,
      check: (profile) => allHold(demand.requires, profile, this.rules),
      prefers: (profile) => demand.prefers.length > 0 && allHold(demand.prefers, profile, this.rules),
      needsRebuild,
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
    this.#work.small(profile.services.length + Object.keys(profile.labels).length)
    this.#matching.addPool(pool)
    return pool
  }

  #settle(node: RegistryNode, membership: PoolMembership, row: Row, load: number = loadOf(node)): void {
    const known = membership.bucket[row.number]
    const was = known ?? -1
    const next = this.#bucketOf(node, row, was, load)
    if (next === known) return
    const wasOpen = row.mask !== 0
    if (was >= 0) row.takeOut(node, membership, this.side)
    if (next >= 0) row.put(node, membership, next)
    else membership.bucket[row.number] = -1
    if (wasOpen !== (row.mask !== 0)) this.#work.small(row.matches.length)
  }

  #bucketOf(node: RegistryNode, row: Row, was: number, load: number): number {
    if (!node.open) return -1
    const { serviceIndexes, shape } = row
    let fullest = 0
    for (let i = 0; i < serviceIndexes.length; i += 1) {
      const index = serviceIndexes[i]!
      const slots = node.slots[index]!
      const taken = node.used[index]!
      if (node.shut[index] || slots - taken < shape.weights[i]!) return -1
      if (taken / slots > fullest) fullest = taken / slots
    }
    const score = (this.#usedShare * fullest + (1 - this.#usedShare) * load) * bucketCount
    // A tolerance of a quarter of a bucket keeps a node at the edge from moving with every heartbeat.
    if (was >= 0 && score >= was - 0.25 && score < was + 1.25) return was
    return Math.min(bucketCount - 1, Math.floor(score))
  }
}

/** The load of a node over all services: its reported load, and the assigns that this does not include. */
function loadOf(node: RegistryNode): number {
  return Math.min(1, node.reported + node.uncounted / node.totalSlots)
}
