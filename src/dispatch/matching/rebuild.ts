/**
 * Building all pools anew beside the ones in use, a few steps at a time, and swapping the pointer when they are whole:
 *
 *   ask every demand ─▶ join every node ─▶ match every demand ─▶ swap, wake waiting tasks ─▶ sweep the old memberships
 *
 * Whatever happens to a node meanwhile happens in both, so the new ones are never behind.
 */
import type { RegistryState } from '../registry/registry-state.ts'
import type { Demand } from './demand.ts'
import { Generation } from './generation.ts'
import type { Finder } from './matching.ts'
import { labelsAsked } from './requirement.ts'

/** A rebuild under way. */
export interface Rebuild {
  phase: 'ask' | 'join' | 'match' | 'sweep'
  /** All demands; those made meanwhile are added. */
  readonly demands: Demand[]
  /** How many of them were asked, and later, matched. */
  demand: number
  /** The next line of the fleet to look at. */
  line: number
  /** The generation being built; after the swap, the one in use. */
  readonly shadow: Generation
  readonly startedAt: number
}

/** Begins a rebuild; while one is under way, another follows it. */
export function startRebuild(state: RegistryState): void {
  if (state.rebuild !== null) {
    state.rebuildAgain = true
    return
  }
  const { generation, policy, now, work } = state
  const shadow = new Generation(generation.number + 1, new Map(state.rules), policy.weights.used, work)
  for (const requires of state.rules.values()) shadow.heed(labelsAsked(requires, state.rules))
  const demands = [...state.demands.values()]
  work.small(demands.length / 8)
  state.rebuild = { phase: 'ask', demands, demand: 0, line: 0, shadow, startedAt: now }
}

/** The pools in use do not distinguish a label that a demand asks for: builds pools that do. */
export function startRebuildFor(state: RegistryState, demand: Demand): void {
  const { shadow, rebuild } = state
  // The rebuild asks this demand too.
  if (rebuild?.phase === 'ask') return
  if (shadow === null || shadow.view(demand, (label) => state.nodes.labelled(label)).blind)
    startRebuild(state)
}

/** Continues the rebuild for up to `steps` steps. */
export function continueRebuild(state: RegistryState, rebuild: Rebuild, steps: number): void {
  const until = state.work.done + steps
  switch (rebuild.phase) {
    case 'ask':
      ask(state, rebuild, until)
      return
    case 'join':
      join(state, rebuild, until)
      return
    case 'match':
      match(state, rebuild, until)
      return
    case 'sweep':
      sweep(state, rebuild, until)
  }
}

function ask({ rules, work }: RegistryState, rebuild: Rebuild, until: number): void {
  const { demands, shadow } = rebuild
  for (; rebuild.demand < demands.length; rebuild.demand += 1) {
    if (work.done >= until) return
    const { key, requires, prefers } = demands[rebuild.demand]!
    work.done += 0.25 + key.length / 256
    shadow.heed(labelsAsked([...requires, ...prefers], rules))
  }
  rebuild.phase = 'join'
  rebuild.demand = 0
}

function join({ nodes, work }: RegistryState, rebuild: Rebuild, until: number): void {
  for (; rebuild.line < nodes.lineCount; rebuild.line += 1) {
    if (work.done >= until) return
    work.small(1)
    const node = nodes.line(rebuild.line)
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
  const labelled = (label: string) => state.nodes.labelled(label)
  for (; rebuild.demand < demands.length; rebuild.demand += 1) {
    if (work.done >= until) return
    const demand = demands[rebuild.demand]!
    work.small(1)
    if (!demand.isDropped) shadow.view(demand, labelled)
  }
  if (work.done < until) shadow.advance(until - work.done, noFinder)
  if (shadow.unfinished) return
  const { nodes, now } = state
  state.generation = shadow
  rebuild.phase = 'sweep'
  rebuild.line = 0
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
  for (; rebuild.line < nodes.lineCount; rebuild.line += 1) {
    if (work.done >= until) return
    work.small(1)
    const node = nodes.line(rebuild.line)
    if (node !== null) node.memberships[old] = null
  }
  state.rebuild = null
  if (!state.rebuildAgain) return
  state.rebuildAgain = false
  startRebuild(state)
}
