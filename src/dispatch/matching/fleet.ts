/** All nodes: by id, and by their line in the snapshot pages. Lines of forgotten nodes are given to the next comers. */

import type { NodeView } from '../node.ts'
import { FleetNode } from './fleet-node.ts'
import { WideMap } from './wide-map.ts'

/** Nodes per snapshot page. */
export const pageSize = 256

const noServices: ReadonlySet<string> = new Set()

/** The nodes in the registry. */
export class Fleet {
  readonly #nodes = new WideMap<FleetNode>()
  readonly #lines: (FleetNode | null)[] = []
  readonly #freeLines: number[] = []
  readonly #labels = new Map<string, number>()
  /** What an operator closed, by node id, kept while the node is away; '' stands for the whole node. */
  readonly #cordons = new Map<string, Set<string>>()
  readonly #dirty = new Set<number>()

  get size(): number {
    return this.#nodes.size
  }

  /** How many lines there are, free ones too. */
  get lineCount(): number {
    return this.#lines.length
  }

  get pageCount(): number {
    return Math.ceil(this.#lines.length / pageSize)
  }

  get dirty(): boolean {
    return this.#dirty.size > 0
  }

  find(nodeId: string): FleetNode | undefined {
    return this.#nodes.get(nodeId)
  }

  line(number: number): FleetNode | null {
    return this.#lines[number] ?? null
  }

  add(nodeId: string, instanceId: string, epoch: number): FleetNode {
    const index = this.#freeLines.pop() ?? this.#lines.length
    const node = new FleetNode(nodeId, index, instanceId, epoch)
    this.#lines[index] = node
    this.#nodes.set(nodeId, node)
    return node
  }

  remove(node: FleetNode): void {
    this.#nodes.delete(node.nodeId)
    this.#lines[node.index] = null
    this.#freeLines.push(node.index)
    this.touch(node)
  }

  /** Counts a node's labels in or out, to know which ones tell live nodes apart. */
  countLabels(node: FleetNode, sign: 1 | -1): void {
    for (const label of Object.keys(node.labels)) {
      const count = (this.#labels.get(label) ?? 0) + sign
      if (count > 0) this.#labels.set(label, count)
      else this.#labels.delete(label)
    }
  }

  /** Whether any live node has the label. */
  labelled(label: string): boolean {
    return this.#labels.has(label)
  }

  cordon(nodeId: string, service: string, on: boolean): void {
    const services = this.#cordons.get(nodeId) ?? new Set()
    if (on) services.add(service)
    else services.delete(service)
    if (services.size > 0) this.#cordons.set(nodeId, services)
    else this.#cordons.delete(nodeId)
  }

  cordonsOf(nodeId: string): ReadonlySet<string> {
    return this.#cordons.get(nodeId) ?? noServices
  }

  /** The page of this node must be read anew. */
  touch(node: FleetNode): void {
    node.shown = null
    this.#dirty.add(Math.floor(node.index / pageSize))
  }

  /** The page that has waited longest to be read anew; undefined: none has to be. */
  takeDirty(): number | undefined {
    for (const page of this.#dirty) {
      this.#dirty.delete(page)
      return page
    }
    return undefined
  }

  page(number: number, now: number): readonly NodeView[] {
    const views: NodeView[] = []
    for (let line = number * pageSize; line < (number + 1) * pageSize; line += 1) {
      const node = this.#lines[line]
      if (!node) continue
      node.shown ??= node.view(this.cordonsOf(node.nodeId), now)
      views.push(node.shown)
    }
    return views
  }
}
