/**
 * Building all pools anew beside the ones in use, a few steps at a time, and swapping the pointer when they are whole:
 *
 *   join every node ─▶ match every demand ─▶ swap, wake who waits ─▶ sweep the old places
 *
 * Whatever happens to a node meanwhile happens in both, so the new ones are never behind.
 */
import type { Books } from './books.ts'
import type { Demand } from './demand.ts'
import { Generation } from './generation.ts'
import { labelsAsked } from './requirement.ts'

/** A rebuild under way. */
export interface Rebuild {
  phase: 'join' | 'match' | 'sweep'
  /** The next line of the fleet to look at. */
  line: number
  /** The generation being built; after the swap, the one in use. */
  readonly shadow: Generation
  readonly startedAt: number
}

/** Begins a rebuild; while one is under way, another follows it. */
export function startRebuild(books: Books): void {
  if (books.rebuild !== null) {
    books.rebuildAgain = true
    return
  }
  const labels = new Set<string>()
  for (const { requires, prefers } of books.demands.values()) {
    labelsAsked(requires, books.rules, labels)
    labelsAsked(prefers, books.rules, labels)
  }
  for (const requires of books.rules.values()) labelsAsked(requires, books.rules, labels)
  const { generation, policy, now } = books
  const shadow = new Generation(generation.number + 1, new Map(books.rules), labels, policy.weights.used)
  books.rebuild = { phase: 'join', line: 0, shadow, startedAt: now }
}

/** The pools in use do not tell apart what a demand asks for: pools that do are built. */
export function startRebuildFor(books: Books, demand: Demand): void {
  const { shadow } = books
  if (shadow === null || shadow.view(demand, (label) => books.fleet.labelled(label)).blind)
    startRebuild(books)
}

/** Goes on with the rebuild for so many steps. */
export function continueRebuild(books: Books, rebuild: Rebuild, steps: number): void {
  switch (rebuild.phase) {
    case 'join':
      join(books, rebuild, steps)
      return
    case 'match':
      match(books, rebuild, steps)
      return
    case 'sweep':
      sweep(books, rebuild, steps)
  }
}

function join({ fleet }: Books, rebuild: Rebuild, steps: number): void {
  const end = Math.min(fleet.lineCount, rebuild.line + steps)
  for (; rebuild.line < end; rebuild.line += 1) {
    const node = fleet.line(rebuild.line)
    if (node !== null && node.status !== 'gone' && rebuild.shadow.placeOf(node) === null)
      rebuild.shadow.join(node)
  }
  if (rebuild.line >= fleet.lineCount) rebuild.phase = 'match'
}

function ignore(): void {}

function match(books: Books, rebuild: Rebuild, steps: number): void {
  const { shadow } = rebuild
  const labelled = (label: string) => books.fleet.labelled(label)
  for (const demand of books.demands.values()) shadow.view(demand, labelled)
  shadow.advance(steps, ignore, ignore)
  if (shadow.unfinished) return
  const { fleet, now } = books
  books.generation = shadow
  rebuild.phase = 'sweep'
  rebuild.line = 0
  // Rules may have changed: whoever waits is tried with the new pools.
  books.toWake.push(...books.waitingDemands)
  const tookMs = now - rebuild.startedAt
  const { number, pools } = shadow
  books.tell({
    name: 'pools.rebuilt',
    generation: number,
    nodeCount: fleet.size,
    poolCount: pools.length,
    tookMs,
  })
}

function sweep(books: Books, rebuild: Rebuild, steps: number): void {
  const { fleet } = books
  const old = rebuild.shadow.side === 0 ? 1 : 0
  const end = Math.min(fleet.lineCount, rebuild.line + steps)
  for (; rebuild.line < end; rebuild.line += 1) {
    const node = fleet.line(rebuild.line)
    if (node !== null) node.places[old] = null
  }
  if (rebuild.line < fleet.lineCount) return
  books.rebuild = null
  if (!books.rebuildAgain) return
  books.rebuildAgain = false
  startRebuild(books)
}
