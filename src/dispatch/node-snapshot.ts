/** The nodes as readers see them: pages that are replaced whole when the registry publishes them, never changed. */
import type { NodeView, TaskView } from './node.ts'

/** Where pages come from: the registry, in this thread or another. */
export interface PageSource {
  readonly pageCount: number
  page(number: number): readonly NodeView[]
}

/** The pages last published. */
export class Snapshot {
  #pages: readonly (readonly NodeView[])[] = []
  version = 0

  /** Takes over the pages that `publish` named. Readers that began before go on with what they had. */
  publish(source: PageSource, pages: readonly number[], version: number): void {
    const next = this.#pages.slice(0, source.pageCount)
    for (const number of pages) if (number < source.pageCount) next[number] = source.page(number)
    this.#pages = next
    this.version = version
  }

  /** All nodes as they stood when the walk began. */
  *nodes(): Generator<NodeView> {
    const pages = this.#pages
    for (const page of pages) yield* page ?? []
  }

  find(nodeId: string): NodeView | undefined {
    for (const node of this.nodes()) if (node.nodeId === nodeId) return node
    return undefined
  }
}

/** How one service stands in this process: the tasks that wait here, and the slots of the nodes that are connected here. */
export interface ServiceCounts {
  readonly service: string
  readonly waiting: number
  /** How long the oldest waiting task has waited since it was submitted; 0 when none waits. */
  readonly oldestWaitMs: number
  readonly slots: number
  readonly used: number
}

/** A look at every task and node of this process: for a scrape now and then. Sorted by service. */
export function countServices(
  tasks: Iterable<TaskView>,
  nodes: Iterable<NodeView>,
  now: number,
): readonly ServiceCounts[] {
  const counts = new Map<string, { -readonly [Key in keyof ServiceCounts]: ServiceCounts[Key] }>()
  const of = (service: string) => {
    const known = counts.get(service)
    if (known !== undefined) return known
    const made = { service, waiting: 0, oldestWaitMs: 0, slots: 0, used: 0 }
    counts.set(service, made)
    return made
  }
  for (const { status, spec } of tasks) {
    if (status !== 'waiting') continue
    const line = of(spec.service)
    line.waiting++
    line.oldestWaitMs = Math.max(line.oldestWaitMs, now - spec.submittedAt)
  }
  for (const { via, status, services } of nodes) {
    // Other servers count their own nodes, and a node that is gone has nothing to offer.
    if (via !== null || status === 'gone') continue
    for (const { name, slots, used } of services) {
      const line = of(name)
      line.slots += slots
      line.used += used
    }
  }
  return [...counts.values()].sort((one, other) => (one.service < other.service ? -1 : 1))
}
