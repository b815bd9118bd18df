/**
 * The limit: the plainest code that places a task on a node with a free slot. An array of free nodes for each ask; the
 * last one is taken, and put back while it has slots left. No load, no order, no leases, no waiting.
 */
import { asks, type Member, memberOf, serviceNames, slotsPerService } from './registry/population.ts'

interface PlainNode {
  readonly nodeId: string
  readonly free: Int32Array
}

export class PlainSlots {
  readonly #free = new Map<string, PlainNode[]>(asks.map((ask) => [keyOf(ask), []]))

  constructor(nodeCount: number) {
    for (let number = 0; number < nodeCount; number++) this.#enter(memberOf(number))
  }

  reserve(key: string, service: number): PlainNode {
    const nodes = this.#free.get(key)!
    const node = nodes.at(-1)
    if (node === undefined) throw new Error('no node is free')
    if (--node.free[service]! === 0) nodes.pop()
    return node
  }

  release(key: string, service: number, node: PlainNode): void {
    if (node.free[service]!++ === 0) this.#free.get(key)!.push(node)
  }

  #enter({ nodeId, language }: Member): void {
    const node = { nodeId, free: new Int32Array(serviceNames.length).fill(slotsPerService) }
    for (const service of serviceNames) this.#free.get(keyOf({ service, language }))!.push(node)
  }
}

export function keyOf({
  service,
  language,
}: {
  readonly service: string
  readonly language: string
}): string {
  return `${service}/${language}`
}
