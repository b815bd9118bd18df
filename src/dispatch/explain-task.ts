/**
 * Explains why a task waits. It only reads the published nodes and does not use the registry. It yields every few
 * hundred nodes, so that the caller can let other work run.
 */

import { type PoolRules, termHolds } from './matching/requirement.ts'
import type { NodeView, TaskSpec, TaskStatus, Term } from './node.ts'

/** Why a task is not placed. */
export interface Explanation {
  readonly taskId: string
  readonly nodeCount: number
  /** Nodes that meet all fixed requirements, but have no free slots or take no new work now. */
  readonly suitableCount: number
  /** Nodes that meet all requirements now. If there are any, the task is about to be placed. */
  readonly readyCount: number
  /** Every requirement with the number of nodes that fail it; a node may fail several. */
  readonly requirements: readonly { readonly requirement: string; readonly failingCount: number }[]
  /** Up to five nodes that fail the fewest requirements, with these requirements. */
  readonly nearest: readonly { readonly nodeId: string; readonly missing: readonly string[] }[]
  /** The changes that would place the task. */
  readonly wakes: readonly string[]
}

/** The data for an explanation. */
export interface ExplainSource {
  readonly spec: TaskSpec
  readonly nodes: Iterable<NodeView>
  readonly rules: PoolRules
  readonly now: number
}

interface Requirement {
  readonly text: string
  /** A fixed requirement depends on what nodes offer; the others change with load and operators. */
  readonly fixed: boolean
  readonly holds: (node: NodeView) => boolean
  failing: number
}

const nodesPerStep = 256
const nearestCount = 5

/** Explains why a task waits, and yields every 256 nodes. */
export function* explainSteps({ spec, nodes, rules, now }: ExplainSource): Generator<void, Explanation> {
  const requirements = requirementsOf(spec, rules, now)
  const nearest: { node: NodeView; missing: string[]; fixedMisses: number }[] = []
  let nodeCount = 0
  let suitableCount = 0
  let readyCount = 0
  for (const node of nodes) {
    if (node.status === 'gone') continue
    nodeCount += 1
    if (nodeCount % nodesPerStep === 0) yield
    const missing: string[] = []
    let fixedMisses = 0
    for (const requirement of requirements) {
      if (requirement.holds(node)) continue
      requirement.failing += 1
      missing.push(requirement.text)
      if (requirement.fixed) fixedMisses += 1
    }
    if (missing.length === 0) readyCount += 1
    else if (fixedMisses === 0) suitableCount += 1
    if (missing.length === 0) continue
    nearest.push({ node, missing, fixedMisses })
    nearest.sort((a, b) => a.fixedMisses - b.fixedMisses || a.missing.length - b.missing.length)
    nearest.length = Math.min(nearest.length, nearestCount)
  }
  return {
    taskId: spec.taskId,
    nodeCount,
    suitableCount,
    readyCount,
    requirements: requirements.map(({ text, failing }) => ({ requirement: text, failingCount: failing })),
    nearest: nearest.map(({ node, missing }) => ({ nodeId: node.nodeId, missing })),
    wakes: wakesOf(spec, { nodeCount, suitableCount, readyCount }, nearest),
  }
}

/** The text for a task that does not wait; null: it waits. */
export function whyNotWaiting({
  status,
  nodeId,
  progress,
}: {
  readonly status: TaskStatus
  readonly nodeId: string | null
  readonly progress: { readonly percent: number | null } | null
}): string | null {
  switch (status) {
    case 'waiting':
      return null
    case 'assigned':
    case 'running': {
      const isAt = typeof progress?.percent === 'number' ? `, and is at ${progress.percent} %` : ''
      return `Nothing: it does not wait. Node "${nodeId}" has it${isAt}.`
    }
    default:
      return `Nothing: it does not wait. It is ${status}.`
  }
}

function requirementsOf(spec: TaskSpec, rules: PoolRules, now: number): readonly Requirement[] {
  const uses = Object.entries(spec.uses)
  const offer = (node: NodeView, name: string) => node.services.find((service) => service.name === name)
  return [
    ...uses.map(([name, weight]) =>
      fixed(
        weight === 1 ? `service ${name}` : `service ${name} with ${weight} slots`,
        (node) => (offer(node, name)?.slots ?? 0) >= weight,
      ),
    ),
    ...spec.requires.map((term) => fixed(describeTerm(term), (node) => termHolds(term, node, rules))),
    temporary('connected', ({ status }) => status === 'ready'),
    temporary('not draining', ({ draining }) => !draining),
    temporary('not cordoned', ({ cordoned }) => !cordoned),
    temporary('not overloaded', ({ overloaded }) => !overloaded),
    temporary('not kept free for another task', ({ heldFor }) => heldFor === null || heldFor === spec.taskId),
    ...uses.map(([name, weight]) =>
      temporary(weight === 1 ? `a free slot of ${name}` : `${weight} free slots of ${name}`, (node) => {
        const service = offer(node, name)
        if (service === undefined || service.slots < weight) return true
        return service.slots - service.used >= weight
      }),
    ),
    ...uses.map(([name]) =>
      temporary(`${name} open for work`, (node) => {
        const service = offer(node, name)
        return service === undefined || (!service.cordoned && (service.restsUntil ?? 0) <= now)
      }),
    ),
  ]
}

function fixed(text: string, holds: Requirement['holds']): Requirement {
  return { text, holds, fixed: true, failing: 0 }
}

function temporary(text: string, holds: Requirement['holds']): Requirement {
  return { text, holds, fixed: false, failing: 0 }
}

function wakesOf(
  { uses }: TaskSpec,
  counts: { nodeCount: number; suitableCount: number; readyCount: number },
  nearest: readonly { readonly node: NodeView; readonly missing: readonly string[] }[],
): readonly string[] {
  const names = Object.keys(uses).join(', ')
  if (counts.readyCount > 0) return ['Nothing is missing: it is placed in its turn.']
  if (counts.suitableCount > 0) {
    return nearest
      .slice(0, counts.suitableCount)
      .map(({ node, missing }) => `Node "${node.nodeId}": ${missing.join(', ')}.`)
  }
  if (counts.nodeCount === 0) return [`A node that offers ${names} connects.`]
  return [`A node connects, or changes what it offers, so that all requirements hold for it (${names}).`]
}

/** Describes a term as part of a sentence. */
export function describeTerm(term: Term): string {
  if ('any' in term) return `any of (${term.any.map(describeTerm).join(' | ')})`
  if ('not' in term) return `not (${describeTerm(term.not)})`
  if ('service' in term) {
    const where = Object.entries(term.where ?? {}).map(([tag, value]) => `${tag} ${value}`)
    return where.length === 0 ? `service ${term.service}` : `service ${term.service} with ${where.join(', ')}`
  }
  const parts: string[] = []
  if (term.in !== undefined) parts.push(`in [${term.in.join(', ')}]`)
  if (term.gte !== undefined) parts.push(`at least ${term.gte}`)
  if (term.lte !== undefined) parts.push(`at most ${term.lte}`)
  return parts.length === 0 ? `label ${term.label}` : `label ${term.label} ${parts.join(' and ')}`
}
