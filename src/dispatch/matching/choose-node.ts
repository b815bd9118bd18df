/**
 * Which node a task goes to. At most `maxPoolsScanned` pools are looked at, each by its lowest bucket; in the best one
 * two nodes are drawn and the less loaded is taken, so that servers with the same view do not all take the same node.
 */

import type { RegistryPolicy } from '../registry/policy.ts'
import type { Dice } from '../registry/seeded-random.ts'
import type { FleetNode } from './fleet-node.ts'
import type { Generation } from './generation.ts'
import type { Row, View } from './pool.ts'

/** What a task would rather have: its session's node, and not the one that failed it. */
export interface Wishes {
  readonly sticky: FleetNode | undefined
  readonly shunned: string | null
}

/** The node to take; null: none that meets the demand has free slots. */
export function choose(
  generation: Generation,
  view: View,
  { sticky, shunned }: Wishes,
  dice: Dice,
  policy: RegistryPolicy,
): FleetNode | null {
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
function bucketIn(generation: Generation, view: View, node: FleetNode): number {
  const membership = generation.membershipOf(node)
  if (membership === null || view.blind || !view.check(membership.pool.profile)) return -1
  const row = membership.pool.findRow(view.demand.shape)
  return row === undefined ? -1 : (membership.bucket[row.number] ?? -1)
}

function draw(row: Row, bucket: number, dice: Dice): FleetNode {
  const nodes = row.buckets[bucket]!
  if (nodes.length === 1) return nodes[0]!
  const first = dice.roll(nodes.length)
  const second = (first + 1 + dice.roll(nodes.length - 1)) % nodes.length
  const a = nodes[first]!
  const b = nodes[second]!
  return leaning(b) < leaning(a) ? b : a
}

function leaning(node: FleetNode): number {
  return node.reported + (node.uncounted + node.taken) / node.totalSlots
}

/** Any node with free slots but this one: the least loaded bucket of each pool that has another. */
function another(view: View, shunned: string): FleetNode | null {
  for (const { row } of view.open) {
    for (const nodes of row.buckets) {
      for (const node of nodes) if (node.nodeId !== shunned) return node
    }
  }
  return null
}
