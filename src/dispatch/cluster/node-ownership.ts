/**
 * Whose a node is: the row that says so, and what becomes of it when the node says hello somewhere. Pure; the store
 * makes sure that of two servers that decide at once only one is heard.
 */
import { tidyServices } from '../matching/requirement.ts'
import type { Labels, ServiceOffer } from '../node.ts'

/** A node in the cluster state. Its owner holds its socket, and places its work alone. */
export interface NodeDoc {
  readonly instanceId: string
  readonly epoch: number
  /** Instances that were taken over, the latest last. */
  readonly past: readonly string[]
  readonly owner: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  readonly joinedAt: number
}

/** A node that wants to come in, as far as its row is concerned. */
export interface Entrant {
  readonly instanceId: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
}

/** The server at which it does. */
export interface Entrance {
  readonly serverId: string
  /** The epoch of an unknown node. */
  readonly epoch: number
  /** No epoch below this: the server gave the node up in the one before. */
  readonly leastEpoch: number
  /** By the store's clock. */
  readonly now: number
}

/** What became of it. */
export type Entered =
  | { readonly kind: 'entered'; readonly doc: NodeDoc }
  | { readonly kind: 'superseded'; readonly epoch: number }
  /** It was thought to be here, and is another server's. */
  | { readonly kind: 'elsewhere' }

/** Instances remembered as taken over. */
const maxPast = 8

/**
 * The same instance keeps its epoch wherever it comes; another one takes over, and the one before stays out for good.
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

/** A node that is here with that epoch keeps it, unless its row says that it has been at another server since. */
export function stayNode(row: NodeDoc | undefined, entrant: Entrant, at: Entrance): Entered {
  const isHere =
    row === undefined ||
    (row.owner === at.serverId && row.instanceId === entrant.instanceId && row.epoch <= at.epoch)
  if (!isHere || at.leastEpoch > at.epoch) return { kind: 'elsewhere' }
  const { kind, doc } = enterNode(row, entrant, at) as Extract<Entered, { kind: 'entered' }>
  return { kind, doc: { ...doc, epoch: at.epoch } }
}
