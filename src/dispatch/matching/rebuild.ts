/**
 * Builds all pools again beside the ones in use, a few steps at a time, and then switches to them:
 *
 *   collect labels ─▶ join every node ─▶ match every demand ─▶ switch, wake waiting tasks ─▶ sweep old memberships
 *
 * Meanwhile every change of a node is applied to both generations, so the new one is never behind.
 */
import type { RegistryState } from '../registry/registry-state.ts'
import type { Demand } from './demand.ts'
import { Generation } from './generation.ts'
import type { Finder } from './matching.ts'
import { labelsAsked } from './requirement.ts'

/** A running rebuild. */
export interface Rebuild {
  phase: 'collect' | 'join' | 'match' | 'sweep'
  /** All demands, including new ones since the rebuild began. */
  readonly demands: Demand[]
  /** How many demands this phase has handled. */
  demandIndex: number
  /** The next index of the node table to handle. */
  index: number
  /** The generation that is built; after the switch, it is in use. */
  readonly shadow: Generation
  readonly startedAt: number
}

/** Begins a rebuild. If one is running, another follows it. */
export function startRebuild(state: RegistryState): void {
  if (state.rebuild !== null) {
    state.rebuildAgain = true
    return
  }
  const { generation, policy, now, work } = state
  const shadow = new Generation(generation.number + 1, new Map(state.rules), policy.weights.used, work)
  for (const requires of state.rules.values()) shadow.addLabels(labelsAsked(requires, state.rules))
  const demands = [...state.demands.values()]
  work.small(demands.length / 8)
  state.rebuild = { phase: 'collect', demands, demandIndex: 0, index: 0, shadow, startedAt: now }
}

/** Begins a rebuild for a demand with a label that the pools in use do not distinguish. */
export function startRebuildFor(state: RegistryState, demand: Demand): void {
  const { shadow, rebuild } = state
  // The running rebuild still collects labels, so it includes this demand.
  if (rebuild?.phase === 'collect') return
  if (shadow === null || shadow.view(demand, (label) => state.nodes.hasLabel(label)).needsRebuild)
    startRebuild(state)
}

/** Continues the rebuild for up to `steps` steps. */
export function continueRebuild(state: RegistryState, rebuild: Rebuild, steps: number): void {
  const phases = { collect: collectLabels, join, match, sweep }
  phases[rebuild.phase](state, rebuild, state.work.done + steps)
}

function collectLabels({ rules, work }: RegistryState, rebuild: Rebuild, until: number): void {
  const { demands, shadow } = rebuild
  for (; rebuild.demandIndex < demands.length; rebuild.demandIndex += 1) {
    if (work.done >= until) return
    const { key, requires, prefers } = demands[rebuild.demandIndex]!
    work.done += 0.25 + key.length / 256
    shadow.addLabels(labelsAsked([...requires, ...prefers], rules))
  }
  rebuild.phase = 'join'
  rebuild.demandIndex = 0
}

function join({ nodes, work }: RegistryState, rebuild: Rebuild, until: number): void {
  for (; rebuild.index < nodes.indexCount; rebuild.index += 1) {
    if (work.done >= until) return
    work.small(1)
    const node = nodes.at(rebuild.index)
    if (node !== null && node.status !== 'gone' && rebuild.shadow.membershipOf(node) === null)
      rebuild.shadow.join(node)
  }
  rebuild.phase = 'match'
}

/** Pools that are not in use serve no task. */
const noFinder: Finder = { hasCapacity: () => {}, hasPool: () => {} }

function match(state: RegistryState, rebuild: Rebuild, until: number): void {
  const { shadow, demands } = rebuild
  const { work } = state
  const hasLabel = (label: string) => state.nodes.hasLabel(label)
  for (; rebuild.demandIndex < demands.length; rebuild.demandIndex += 1) {
    if (work.done >= until) return
    const demand = demands[rebuild.demandIndex]!
    work.small(1)
    if (!demand.isDropped) shadow.view(demand, hasLabel)
  }
  if (work.done < until) shadow.advance(until - work.done, noFinder)
  if (shadow.unfinished) return
  const { nodes, now } = state
  state.generation = shadow
  rebuild.phase = 'sweep'
  rebuild.index = 0
  // Rules may have changed: try every waiting task with the new pools.
  for (const waiting of state.waitingKinds.values()) {
    work.small(waiting.size)
    for (const demand of waiting) state.toWake.add(demand)
  }
  const tookMs = now - rebuild.startedAt
  const { number, pools } = shadow
  state.report({
    name: 'pools.rebuilt',
    generation: number,
    nodeCount: nodes.size,
    poolCount: pools.length,
    tookMs,
  })
}

function sweep(state: RegistryState, rebuild: Rebuild, until: number): void {
  const { nodes, work } = state
  const old = rebuild.shadow.side === 0 ? 1 : 0
  for (; rebuild.index < nodes.indexCount; rebuild.index += 1) {
    if (work.done >= until) return
    work.small(1)
    const node = nodes.at(rebuild.index)
    if (node !== null) node.memberships[old] = null
  }
  state.rebuild = null
  if (!state.rebuildAgain) return
  state.rebuildAgain = false
  startRebuild(state)
}
