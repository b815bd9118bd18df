/** The fleet as readers see it: pages that are replaced whole when the registry publishes them, never changed. */
import type { NodeView } from './node.ts'

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
