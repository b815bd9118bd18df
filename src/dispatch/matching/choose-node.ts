/**
 * Chooses the node for a task. It looks at no more than `maxPoolsScanned` pools, each by its lowest bucket. From the best
 * one it draws two nodes and takes the less loaded, so that servers with the same view do not all take the same node.
 */

import type { RegistryPolicy } from '../registry/registry-state.ts'
import type { Generation } from './generation.ts'
import type { RegistryNode } from './node-table.ts'
import type { Row, View } from './pool.ts'

/** What a task prefers: its session's node, and not the node that failed it. */
export interface Wishes {
  readonly sticky: RegistryNode | undefined
  readonly shunned: string | null
}

/** The node to take; null: none that meets the demand has free slots. */
export function choose(
  generation: Generation,
  view: View,
  { sticky, shunned }: Wishes,
  dice: Dice,
  policy: RegistryPolicy,
): RegistryNode | null {
  const { open } = view
  if (open.length === 0) return null
  let best: Row | null = null
  let bestScore = Number.POSITIVE_INFINITY
  const looks = Math.min(open.length, policy.maxPoolsScanned)
  let at = view.cursor < open.length ? view.cursor : 0
  for (let look = 0; look < looks; look += 1) {
    const match = open[at]!
    const score = match.preferred ? match.row.lowest - policy.preferBuckets : match.row.lowest
    if (score < bestScore) {
      best = match.row
      bestScore = score
    }
    at = at + 1 === open.length ? 0 : at + 1
  }
  view.cursor = at
  if (sticky !== undefined && sticky.nodeId !== shunned) {
    const bucket = bucketIn(generation, view, sticky)
    if (bucket >= 0 && bucket <= Math.max(0, bestScore) + policy.escapeBuckets) return sticky
  }
  const chosen = draw(best!, best!.lowest, dice)
  return chosen.nodeId === shunned ? (another(view, shunned) ?? chosen) : chosen
}

/** The bucket of a node for a demand; -1: it does not meet it, or has no free slots. */
function bucketIn(generation: Generation, view: View, node: RegistryNode): number {
  const membership = generation.membershipOf(node)
  if (membership === null || view.blind || !view.check(membership.pool.profile)) return -1
  const row = membership.pool.findRow(view.demand.shape)
  return row === undefined ? -1 : (membership.bucket[row.number] ?? -1)
}

function draw(row: Row, bucket: number, dice: Dice): RegistryNode {
  const nodes = row.buckets[bucket]!
  if (nodes.length === 1) return nodes[0]!
  const first = dice.roll(nodes.length)
  const second = (first + 1 + dice.roll(nodes.length - 1)) % nodes.length
  const a = nodes[first]!
  const b = nodes[second]!
  return leaning(b) < leaning(a) ? b : a
}

function leaning(node: RegistryNode): number {
  return node.reported + (node.uncounted + node.taken) / node.totalSlots
}

/** Any node with free slots but this one: the least loaded bucket of each pool that has another. */
function another(view: View, shunned: string): RegistryNode | null {
  for (const { row } of view.open) {
    for (const nodes of row.buckets) {
      for (const node of nodes) if (node.nodeId !== shunned) return node
    }
  }
  return null
}

/** Dice that fall the same way for the same seed: the registry's only randomness. */
export class Dice {
  #state: number

  constructor(seed: number) {
    // xorshift stays at zero for ever when it starts there.
    this.#state = seed | 0 || 0x9e3779b9
  }

  /** A whole number from 0 to `sides - 1`. */
  roll(sides: number): number {
    let state = this.#state
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    this.#state = state
    return (state >>> 0) % sides
  }
}

/** The node of each session: remembered for `keepMs` after its last task, for `limit` sessions at most. */
export class Sessions {
  /** In the order of their last use, so that the oldest are the first. */
  readonly #nodes = new Map<string, { readonly nodeId: string; readonly until: number }>()
  readonly #keepMs: number
  readonly #limit: number

  constructor(keepMs: number, limit: number) {
    this.#keepMs = keepMs
    this.#limit = limit
  }

  get size(): number {
    return this.#nodes.size
  }

  find(session: string, now: number): string | undefined {
    const known = this.#nodes.get(session)
    return known !== undefined && known.until > now ? known.nodeId : undefined
  }

  bind(session: string, nodeId: string, now: number): void {
    this.#nodes.delete(session)
    this.#nodes.set(session, { nodeId, until: now + this.#keepMs })
    // Each new one removes one that ran out or is too many, so no sweep is needed.
    for (const [oldest, { until }] of this.#nodes) {
      if (until > now && this.#nodes.size <= this.#limit) break
      this.#nodes.delete(oldest)
      if (this.#nodes.size <= this.#limit) break
    }
  }
}
