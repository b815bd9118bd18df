/**
 * The ownership of nodes: the row that names a node's owner, and its change when the node connects to a server. These
 * functions are pure. If two servers decide at once, the store accepts only one write.
 */
import { tidyServices } from '../matching/requirement.ts'
import type { Labels, ServiceOffer } from '../node.ts'

/** A node in the cluster state. Its owner holds its socket, and only the owner places its work. */
export interface NodeDoc {
  readonly instanceId: string
  readonly epoch: number
  /** Former instances, the latest last. */
  readonly past: readonly string[]
  readonly owner: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  readonly joinedAt: number
}

/** The data of a connecting node that its row needs. */
export interface Entrant {
  readonly instanceId: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
}

/** The data of the server to which a node connects. */
export interface Entrance {
  readonly serverId: string
  /** The epoch of an unknown node. */
  readonly epoch: number
  /** The lowest possible epoch, because the server gave the node up in the epoch before. */
  readonly leastEpoch: number
  /** By the store's clock. */
  readonly now: number
}

/** The outcome for a connecting node. */
export type Entered =
  | { readonly kind: 'entered'; readonly doc: NodeDoc }
  | { readonly kind: 'superseded'; readonly epoch: number }
  /** Another server owns the node by now. */
  | { readonly kind: 'elsewhere' }

/** How many former instances are remembered. */
const maxPast = 8

/**
 * Decides about a connecting node. The same instance keeps its epoch at any server. A new instance takes over, and the
 * former instance is refused from then on.
 */
export function enterNode(row: NodeDoc | undefined, entrant: Entrant, at: Entrance): Entered {
  const { instanceId, labels } = entrant
  const services = tidyServices(entrant.services)
  const same = { instanceId, services, labels, owner: at.serverId }
  if (row === undefined) {
    const epoch = Math.max(at.epoch, at.leastEpoch)
    return { kind: 'entered', doc: { ...same, epoch, past: [], joinedAt: at.now } }
  }
  if (row.past.includes(instanceId)) return { kind: 'superseded', epoch: row.epoch }
  if (row.instanceId === instanceId) {
    const epoch = Math.max(row.epoch, at.leastEpoch)
    return { kind: 'entered', doc: { ...same, epoch, past: row.past, joinedAt: row.joinedAt } }
  }
  const epoch = Math.max(row.epoch + 1, at.epoch, at.leastEpoch)
  const past = [...row.past, row.instanceId].slice(-maxPast)
  return { kind: 'entered', doc: { ...same, epoch, past, joinedAt: at.now } }
}

/**
 * Decides about a node that is connected here: it keeps its epoch, unless its row shows that it went to another
 * server.
 */
export function stayNode(row: NodeDoc | undefined, entrant: Entrant, at: Entrance): Entered {
  const isHere =
    row === undefined ||
    (row.owner === at.serverId && row.instanceId === entrant.instanceId && row.epoch <= at.epoch)
  if (!isHere || at.leastEpoch > at.epoch) return { kind: 'elsewhere' }
  const { kind, doc } = enterNode(row, entrant, at) as Extract<Entered, { kind: 'entered' }>
  return { kind, doc: { ...doc, epoch: at.epoch } }
}
