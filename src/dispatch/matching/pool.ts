/**
 * A pool: nodes with one profile. For each shape of tasks it has a row of 32 buckets by load, and a mask of the buckets
 * that are not empty. A row holds a node exactly while the node has free slots for the shape. So every node of a bucket
 * may be chosen, and an empty mask means that no node of the pool has free slots.
 */

import type { Demand, Shape } from './demand.ts'
import type { RegistryNode } from './node-table.ts'
import type { Profile } from './requirement.ts'

/** The number of load levels. */
export const bucketCount = 32

/** A node's membership in a pool of one generation. */
export interface PoolMembership {
  readonly pool: Pool
  /** Its index among the members. */
  member: number
  /** By row: the node's bucket; -1 when it has no free slots; undefined until the row has checked it. */
  readonly bucket: number[]
  /** By row: the node's index in that bucket. */
  readonly position: number[]
}

/** A demand and the pools of one generation that match it. */
export interface View {
  readonly demand: Demand
  /** The cost of a check of one pool, in steps. */
  readonly cost: number
  /** Its index in the generation's list. */
  position: number
  /** The demand was forgotten. */
  dropped: boolean
  /** Whether the nodes of a pool meet the demand, and whether its tasks prefer them. */
  readonly check: (profile: Profile) => boolean
  readonly prefers: (profile: Profile) => boolean
  /**
   * The demand names a label that this generation does not distinguish: it matches no pool until the next generation.
   */
  readonly needsRebuild: boolean
  /** How many pools were checked, in the order of the generation's list. */
  scanned: number
  readonly matches: Match[]
  /** Matches with free slots now. */
  readonly open: Match[]
  /** Where the next choice begins, if there are more open pools than one choice checks. */
  cursor: number
}

/** A pool that meets a demand. */
export interface Match {
  readonly view: View
  readonly row: Row
  readonly preferred: boolean
  /** Its index in the row's list. */
  position: number
  /** Its index in the view's open list; -1: no free slots. */
  openAt: number
}

/** The nodes of a pool that have free slots for one shape, by load. */
export class Row {
  readonly pool: Pool
  readonly shape: Shape
  readonly number: number
  /** The indexes of the shape's services among the services of the pool's nodes. */
  readonly serviceIndexes: readonly number[]
  readonly matches: Match[] = []
  /** How many members were checked, from the first. */
  built = 0
  mask = 0
  readonly buckets: RegistryNode[][] = []

  constructor(pool: Pool, shape: Shape, number: number) {
    this.pool = pool
    this.shape = shape
    this.number = number
    const { services } = pool.profile
    this.serviceIndexes = shape.names.map((name) => services.findIndex((service) => service.name === name))
  }

  /** The least loaded bucket that is not empty. Undefined for an empty mask. */
  get lowest(): number {
    return 31 - Math.clz32(this.mask & -this.mask)
  }

  put(node: RegistryNode, membership: PoolMembership, bucket: number): void {
    let nodes = this.buckets[bucket]
    if (nodes === undefined) {
      while (this.buckets.length <= bucket) this.buckets.push([])
      nodes = this.buckets[bucket]!
    }
    membership.bucket[this.number] = bucket
    membership.position[this.number] = nodes.length
    nodes.push(node)
    if (this.mask === 0) for (const match of this.matches) openMatch(match)
    this.mask |= 1 << bucket
  }

  takeOut(node: RegistryNode, membership: PoolMembership, side: 0 | 1): void {
    const bucket = membership.bucket[this.number]!
    const position = membership.position[this.number]!
    const nodes = this.buckets[bucket]!
    const last = nodes.pop()!
    if (last !== node) {
      nodes[position] = last
      last.memberships[side]!.position[this.number] = position
    }
    membership.bucket[this.number] = -1
    if (nodes.length > 0) return
    this.mask &= ~(1 << bucket)
    if (this.mask === 0) for (const match of this.matches) closeMatch(match)
  }
}

/** Nodes with the same services, tags and relevant labels. */
export class Pool {
  /** The number of the generation it belongs to. */
  readonly generation: number
  readonly key: string
  readonly profile: Profile
  readonly members: RegistryNode[] = []
  readonly rows: Row[] = []
  /** Rows by the key of their shape. */
  readonly #rowOf = new Map<string, Row>()

  constructor(generation: number, key: string, profile: Profile) {
    this.generation = generation
    this.key = key
    this.profile = profile
  }

  findRow(shape: Shape): Row | undefined {
    return this.#rowOf.get(shape.key)
  }

  /** The row for a shape whose services the pool has. */
  row(shape: Shape): Row {
    let row = this.#rowOf.get(shape.key)
    if (row === undefined) {
      row = new Row(this, shape, this.rows.length)
      this.rows.push(row)
      this.#rowOf.set(shape.key, row)
    }
    return row
  }
}

/** Adds a match to its view and its row. */
export function addMatch(view: View, row: Row, preferred: boolean): void {
  const match: Match = { view, row, preferred, position: row.matches.length, openAt: -1 }
  row.matches.push(match)
  view.matches.push(match)
  if (row.mask !== 0) openMatch(match)
}

/** Removes a match from its row. */
export function dropMatch(match: Match): void {
  const last = match.row.matches.pop()!
  if (last === match) return
  match.row.matches[match.position] = last
  last.position = match.position
}

function openMatch(match: Match): void {
  match.openAt = match.view.open.length
  match.view.open.push(match)
}

function closeMatch(match: Match): void {
  const { open } = match.view
  const last = open.pop()!
  if (last !== match) {
    open[match.openAt] = last
    last.openAt = match.openAt
  }
  match.openAt = -1
}
