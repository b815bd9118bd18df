/** The nodes of the other servers: as readers see them, and how many free slots they have for what waits here. */

import { type Offering, offeringOf, type Suitability, slotsFor, type Wish } from '../matching/suitability.ts'
import type { NodeView } from '../node.ts'
import type { Stretch } from '../tasks/stretch.ts'
import type { ClusterSettings } from './cluster-settings.ts'
import type { ClusterChange, ClusterState } from './cluster-state.ts'
import type { NodeDoc } from './node-ownership.ts'
import type { ServerList } from './server-list.ts'
import { decodeUsage } from './usage.ts'

/** What the shared fleet is read from. */
export interface SharedFleetParts {
  readonly cluster: ClusterState
  readonly servers: ServerList
  readonly settings: ClusterSettings
  readonly suitability: Suitability
  readonly serverId: string
  /** Which nodes there are, or what they offer, is another than before. */
  readonly changed: () => void
}

interface RemoteNode extends Offering {
  readonly nodeId: string
  readonly doc: NodeDoc
}

/** How many tasks of a wish fit on nodes that have free slots, now and when they are empty. */
export interface Capacity {
  readonly free: number
  readonly size: number
  /** Some node could do it, with free slots or without. */
  readonly isAble: boolean
}

/** The nodes of other servers. */
export class SharedFleet {
  readonly #parts: SharedFleetParts
  readonly #nodes = new Map<string, RemoteNode>()

  constructor(parts: SharedFleetParts) {
    this.#parts = parts
    parts.cluster.onChange((change) => {
      if (change.kind === 'node') this.#heard(change)
    })
  }

  /** This server has another name now: nodes under the one before are another server's. */
  renamed(): void {
    for (const [key, row] of this.#parts.cluster.rows('node')) {
      this.#heard({ kind: 'node', key, version: row.version, row })
    }
  }

  has(nodeId: string): boolean {
    return this.#nodes.has(nodeId)
  }

  view(nodeId: string): NodeView | undefined {
    const node = this.#nodes.get(nodeId)
    return node === undefined ? undefined : this.#view(node)
  }

  *views(): Generator<NodeView> {
    for (const node of this.#nodes.values()) yield this.#view(node)
  }

  /** Whether a node of a server that lives could do it, with free slots or without. */
  couldDo(wish: Wish, nodeId: string): boolean {
    const { servers, settings, suitability } = this.#parts
    const node = this.#nodes.get(nodeId)
    if (node === undefined || !servers.isLive(node.doc.owner)) return false
    if (!settings.isOpen(nodeId, node.doc.epoch, wish.uses) || !suitability.couldDo(wish, node)) return false
    const usage = servers.usage(node.doc.owner, nodeId)
    // One that its server has not told of yet just came.
    return usage === undefined || decodeUsage(usage).status !== 'gone'
  }

  ids(): IterableIterator<string> {
    return this.#nodes.keys()
  }

  /** Free slots for a wish, as the servers last told, up to so much of it. */
  async capacity(wish: Wish, wanted: number, stretch: Stretch): Promise<Capacity> {
    const { servers, settings, suitability } = this.#parts
    let free = 0
    let size = 0
    let isAble = false
    for (const node of this.#nodes.values()) {
      const { nodeId, doc, services } = node
      const isOpen = servers.isLive(doc.owner) && settings.isOpen(nodeId, doc.epoch, wish.uses)
      if (isOpen && suitability.couldDo(wish, node)) {
        isAble = true
        const here = this.#freeOn(node, wish)
        if (here > 0) {
          free += here
          size += slotsFor(wish.uses, services)
          if (free >= wanted) break
        }
      }
      if (stretch.isOver) await stretch.pause()
    }
    return { free, size, isAble }
  }

  #freeOn({ nodeId, doc, services }: RemoteNode, wish: Wish): number {
    const told = this.#parts.servers.usage(doc.owner, nodeId)
    if (told === undefined) return 0
    const usage = decodeUsage(told)
    if (usage.epoch !== doc.epoch || !usage.isOpen || usage.services.length !== services.length) return 0
    const left = services.map(({ name, slots }, at) => {
      const { used, isOpen } = usage.services[at]!
      return { name, slots: isOpen ? slots - used : 0 }
    })
    return slotsFor(wish.uses, left)
  }

  #view({ nodeId, doc }: RemoteNode): NodeView {
    const { servers, settings } = this.#parts
    const { instanceId, epoch, owner, labels, joinedAt } = doc
    const told = servers.usage(owner, nodeId)
    const usage = told === undefined ? undefined : decodeUsage(told)
    const isTold = usage !== undefined && usage.epoch === epoch
    return {
      ...{ nodeId, instanceId, epoch, labels, joinedAt, via: owner },
      // Its server is gone; the node may come back at another.
      status: !servers.isLive(owner) ? 'suspect' : isTold ? usage.status : 'ready',
      draining: settings.isDraining(nodeId, epoch),
      cordoned: settings.isCordoned(nodeId, null),
      overloaded: isTold && usage.overloaded,
      heldFor: null,
      services: doc.services.map((service, at) => ({
        ...service,
        used: isTold ? (usage.services[at]?.used ?? 0) : 0,
        cordoned: settings.isCordoned(nodeId, service.name),
        restsUntil: null,
      })),
      load: isTold ? usage.load : { cpu: null, gpu: null, memory: null },
      taskIds: [],
      seenAt: Math.max(joinedAt, servers.heardAt(owner)),
    }
  }

  #heard({ key, row }: ClusterChange): void {
    const doc = row?.doc as NodeDoc | undefined
    if (doc === undefined || doc.owner === this.#parts.serverId) {
      if (!this.#nodes.delete(key)) return
    } else {
      this.#nodes.set(key, { nodeId: key, doc, ...offeringOf(doc.services, doc.labels) })
    }
    this.#parts.changed()
  }
}
