/**
 * Chooses the node for a task. It compares at most `maxPoolsScanned` pools by their least loaded bucket. From the best
 * pool it picks two nodes at random and takes the less loaded, so that servers with the same view choose different
 * nodes.
 */

import type { RegistryPolicy } from '../registry/registry-state.ts'
import type { Generation } from './generation.ts'
import type { RegistryNode } from './node-table.ts'
import type { Row, View } from './pool.ts'

/** What a task prefers: its session's node, and not the node that failed it. */
export interface Preferences {
  readonly sticky: RegistryNode | undefined
  readonly shunned: string | null
}

/** Chooses a node; null: no node that meets the demand has free slots. */
export function choose(
  generation: Generation,
  view: View,
  { sticky, shunned }: Preferences,
  random: SeededRandom,
  policy: RegistryPolicy,
): RegistryNode | null {
  const { open } = view
  if (open.length === 0) return null
  let best: Row | null = null
  let bestScore = Number.POSITIVE_INFINITY
  const poolCount = Math.min(open.length, policy.maxPoolsScanned)
  let at = view.cursor < open.length ? view.cursor : 0
  for (let checked = 0; checked < poolCount; checked += 1) {
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
  const chosen = draw(best!, best!.lowest, random)
  return chosen.nodeId === shunned ? (another(view, shunned) ?? chosen) : chosen
}

/** The bucket of a node for a demand; -1: the node does not meet the demand, or has no free slots. */
function bucketIn(generation: Generation, view: View, node: RegistryNode): number {
  const membership = generation.membershipOf(node)
  if (membership === null || view.needsRebuild || !view.check(membership.pool.profile)) return -1
  const row = membership.pool.findRow(view.demand.shape)
  return row === undefined ? -1 : (membership.bucket[row.number] ?? -1)
}

function draw(row: Row, bucket: number, random: SeededRandom): RegistryNode {
  const nodes = row.buckets[bucket]!
  if (nodes.length === 1) return nodes[0]!
  const first = random.nextBelow(nodes.length)
  const second = (first + 1 + random.nextBelow(nodes.length - 1)) % nodes.length
  const a = nodes[first]!
  const b = nodes[second]!
  return estimatedLoad(b) < estimatedLoad(a) ? b : a
}

function estimatedLoad(node: RegistryNode): number {
  return node.reported + (node.uncounted + node.taken) / node.totalSlots
}

/** Another node with free slots, from the least loaded bucket that has one. */
function another(view: View, shunned: string): RegistryNode | null {
  for (const { row } of view.open) {
    for (const nodes of row.buckets) {
      for (const node of nodes) if (node.nodeId !== shunned) return node
    }
  }
  return null
}

/** Random numbers that are the same for the same seed. The registry has no other randomness. */
export class SeededRandom {
  #state: number

  constructor(seed: number) {
    // A zero state would stay zero for ever.
    this.#state = seed | 0 || 0x9e3779b9
  }

  /** A whole number from 0 to `limit - 1`. */
  nextBelow(limit: number): number {
    let state = this.#state
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    this.#state = state
    return (state >>> 0) % limit
  }
}

/** The node of each session, remembered for `keepMs` after the session's last task, for at most `limit` sessions. */
export class Sessions {
  /** In the order of their last use, the oldest first. */
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
    // Each new session removes an expired or surplus one, so no sweep is needed.
    for (const [oldest, { until }] of this.#nodes) {
      if (until > now && this.#nodes.size <= this.#limit) break
      this.#nodes.delete(oldest)
      if (this.#nodes.size <= this.#limit) break
    }
  }
}
