/** The nodes of the other servers: as readers see them, and how many free slots they have for what waits here. */

import { slotsFor, type TaskKind } from '../matching/demand.ts'
import type { NodeView } from '../node.ts'
import type { Stretch } from '../time-limits.ts'
import type { ClusterSettings } from './cluster-settings.ts'
import type { ClusterChange, ClusterState } from './cluster-state.ts'
import type { NodeDoc } from './node-ownership.ts'
import type { ServerList } from './server-list.ts'
import { decodeUsage } from './server-list.ts'

/** What the nodes of other servers are read from. */
export interface OtherNodesParts {
  readonly cluster: ClusterState
  readonly servers: ServerList
  readonly settings: ClusterSettings
  readonly serverId: string
  /** Which nodes there are, or what they offer, is another than before. */
  readonly changed: () => void
}

/** How many tasks of a kind fit on nodes that have free slots, now and when they are empty. */
export interface Capacity {
  readonly free: number
  readonly size: number
}

/** The nodes of other servers. */
export class OtherNodes {
  readonly #parts: OtherNodesParts
  readonly #nodes = new Map<string, NodeDoc>()

  constructor(parts: OtherNodesParts) {
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
    const doc = this.#nodes.get(nodeId)
    return doc && this.#view(nodeId, doc)
  }

  *views(): Generator<NodeView> {
    for (const [nodeId, doc] of this.#nodes) yield this.#view(nodeId, doc)
  }

  /** Whether a node of a server that lives could do it, with free slots or without. */
  couldDo(taskKind: TaskKind, nodeId: string): boolean {
    const { servers, settings } = this.#parts
    const doc = this.#nodes.get(nodeId)
    if (doc === undefined || !servers.isLive(doc.owner) || !settings.couldDo(taskKind, nodeId, doc))
      return false
    const usage = servers.usage(doc.owner, nodeId)
    // A node that its server has not reported yet just came.
    return usage === undefined || decodeUsage(usage).status !== 'gone'
  }

  ids(): IterableIterator<string> {
    return this.#nodes.keys()
  }

  /** Free slots for a kind, as the servers last wrote, up to `wanted`. */
  async capacity(taskKind: TaskKind, wanted: number, stretch: Stretch): Promise<Capacity> {
    const { servers, settings } = this.#parts
    let free = 0
    let size = 0
    for (const [nodeId, doc] of this.#nodes) {
      if (servers.isLive(doc.owner) && settings.couldDo(taskKind, nodeId, doc)) {
        const here = this.#freeOn(nodeId, doc, taskKind)
        if (here > 0) {
          free += here
          size += slotsFor(taskKind.uses, doc.services)
          if (free >= wanted) break
        }
      }
      if (stretch.isOver) await stretch.pause()
    }
    return { free, size }
  }

  #freeOn(nodeId: string, { owner, epoch, services }: NodeDoc, taskKind: TaskKind): number {
    const told = this.#parts.servers.usage(owner, nodeId)
    if (told === undefined) return 0
    const usage = decodeUsage(told)
    if (usage.epoch !== epoch || !usage.isOpen || usage.services.length !== services.length) return 0
    const left = services.map(({ name, slots }, at) => {
      const { used, isOpen } = usage.services[at]!
      return { name, slots: isOpen ? slots - used : 0 }
    })
    return slotsFor(taskKind.uses, left)
  }

  #view(nodeId: string, doc: NodeDoc): NodeView {
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
      this.#nodes.set(key, doc)
    }
    this.#parts.changed()
  }
}
