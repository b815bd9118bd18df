/** The nodes of other servers: their views for readers, and their free slots for tasks that wait here. */

import { slotsFor, type TaskKind } from '../matching/demand.ts'
import type { NodeView } from '../node.ts'
import type { TimeSlice } from '../time-limits.ts'
import type { NodeDoc } from './node-ownership.ts'
import { decodeUsage } from './server-list.ts'
import type { Sharing } from './server-sharing.ts'

/** How many tasks of a kind fit on nodes with free slots: now (`free`), and when these nodes are empty (`size`). */
export interface Capacity {
  readonly free: number
  readonly size: number
}

/** The nodes of other servers. */
export class OtherNodes {
  readonly #sharing: Sharing

  constructor(sharing: Sharing) {
    this.#sharing = sharing
  }

  has(nodeId: string): boolean {
    return this.#find(nodeId) !== undefined
  }

  view(nodeId: string): NodeView | undefined {
    const doc = this.#find(nodeId)
    return doc && this.#view(nodeId, doc)
  }

  *views(): Generator<NodeView> {
    for (const [nodeId, doc] of this.#all()) yield this.#view(nodeId, doc)
  }

  /** Whether the node belongs to a live server and could run the kind, with or without free slots. */
  couldDo(taskKind: TaskKind, nodeId: string): boolean {
    const { servers, settings } = this.#sharing
    const doc = this.#find(nodeId)
    if (doc === undefined || !servers.isLive(doc.owner) || !settings.couldDo(taskKind, nodeId, doc))
      return false
    const usage = servers.usage(doc.owner, nodeId)
    // A node that its server has not reported yet has just connected.
    return usage === undefined || decodeUsage(usage).status !== 'gone'
  }

  *ids(): Generator<string> {
    for (const [nodeId] of this.#all()) yield nodeId
  }

  /** Free slots for a kind, as the servers last reported, up to `wanted`. */
  async capacity(taskKind: TaskKind, wanted: number, slice: TimeSlice): Promise<Capacity> {
    const { servers, settings } = this.#sharing
    let free = 0
    let size = 0
    for (const [nodeId, doc] of this.#all()) {
      if (servers.isLive(doc.owner) && settings.couldDo(taskKind, nodeId, doc)) {
        const here = this.#freeOn(nodeId, doc, taskKind)
        if (here > 0) {
          free += here
          size += slotsFor(taskKind.uses, doc.services)
          if (free >= wanted) break
        }
      }
      if (slice.isOver) await slice.pause()
    }
    return { free, size }
  }

  #freeOn(nodeId: string, { owner, epoch, services }: NodeDoc, taskKind: TaskKind): number {
    const encoded = this.#sharing.servers.usage(owner, nodeId)
    if (encoded === undefined) return 0
    const usage = decodeUsage(encoded)
    if (usage.epoch !== epoch || !usage.isOpen || usage.services.length !== services.length) return 0
    const left = services.map(({ name, slots }, at) => {
      const { used, isOpen } = usage.services[at]!
      return { name, slots: isOpen ? slots - used : 0 }
    })
    return slotsFor(taskKind.uses, left)
  }

  #view(nodeId: string, doc: NodeDoc): NodeView {
    const { servers, settings } = this.#sharing
    const { instanceId, epoch, owner, labels, joinedAt } = doc
    const encoded = servers.usage(owner, nodeId)
    const usage = encoded === undefined ? undefined : decodeUsage(encoded)
    const isKnown = usage !== undefined && usage.epoch === epoch
    return {
      ...{ nodeId, instanceId, epoch, labels, joinedAt, via: owner },
      // The node of a dead server may connect to another server.
      status: !servers.isLive(owner) ? 'suspect' : isKnown ? usage.status : 'ready',
      draining: settings.isDraining(nodeId, epoch),
      cordoned: settings.isCordoned(nodeId, null),
      overloaded: isKnown && usage.overloaded,
      heldFor: null,
      services: doc.services.map((service, at) => ({
        ...service,
        used: isKnown ? (usage.services[at]?.used ?? 0) : 0,
        cordoned: settings.isCordoned(nodeId, service.name),
        restsUntil: null,
      })),
      load: isKnown ? usage.load : { cpu: null, gpu: null, memory: null },
      taskIds: [],
      seenAt: Math.max(joinedAt, servers.heardAt(owner)),
    }
  }

  #find(nodeId: string): NodeDoc | undefined {
    const { cluster, serverId } = this.#sharing
    const doc = cluster.rows('node').get(nodeId)?.doc as NodeDoc | undefined
    return doc?.owner === serverId ? undefined : doc
  }

  *#all(): Generator<readonly [string, NodeDoc]> {
    const { cluster, serverId } = this.#sharing
    for (const [nodeId, row] of cluster.rows('node')) {
      const doc = row.doc as NodeDoc
      if (doc.owner !== serverId) yield [nodeId, doc]
    }
  }
}
