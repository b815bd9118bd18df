/**
 * The nodes whose sockets are here, as the cluster state has them. Writing a node's row is what makes it this
 * server's: until that is done the node is not let in, and when another server has written it since, the node is that
 * one's.
 */
import { SignalboxError } from '../../core/errors.ts'
import { tidyServices } from '../matching/requirement.ts'
import type { Labels, ServiceOffer } from '../node.ts'
import { inTime } from '../time-limits.ts'
import type { ClusterChange, ClusterRow } from './cluster-state.ts'
import { type Entered, type Entrant, enterNode, type NodeDoc, stayNode } from './node-ownership.ts'
import type { Sharing } from './server-sharing.ts'

type OwnNodesParts = Pick<
  Sharing,
  'cluster' | 'serverId' | 'monotonicMs' | 'leastEpoch' | 'lost' | 'changed' | 'onTrouble'
>

interface Held {
  readonly nodeId: string
  /** The connection that it is held for. */
  holder: object
  /** The registry has it for that connection: what it said of the node before was about another. */
  isWelcomed: boolean
  doc: NodeDoc
  version: number
  /** Given up for now: it can do nothing until it says hello again. */
  isGone: boolean
  /** The row says something else than it should. */
  isStale: boolean
  /** When what it offers was last written because it had changed. */
  refreshedAt: number
}

/** A node at the door. */
export interface Caller extends Entrant {
  readonly nodeId: string
  /** The epoch to give to an unknown node. */
  readonly epoch: number
  readonly holder: object
  /** Whether it still waits: one that has gone elsewhere must not be taken from there. */
  readonly isThere: () => boolean
  /** The registry has it already, with this epoch: it stays, unless it is another server's by now. @default false */
  readonly isWelcomed?: boolean
}

/** So long a node waits at the door. */
const enterWithinMs = 5_000
const conflictTries = 8
/** The least time between two writes of a node's offer: after each, all servers judge all kinds again. */
const refreshEveryMs = 500

/** The nodes of this server. */
export class OwnNodes {
  readonly #parts: OwnNodesParts
  readonly #held = new Map<string, Held>()
  /** One thing at a time per node, in the order it was asked for. */
  readonly #lanes = new Map<string, Promise<void>>()
  /** Those that changed again too soon, until they are written together. */
  readonly #late = new Set<Held>()
  #lateTimer: NodeJS.Timeout | undefined

  constructor(parts: OwnNodesParts) {
    this.#parts = parts
    parts.cluster.onChange((change) => {
      if (change.kind === 'node') this.#heard(change)
    })
    parts.cluster.onRead((isAnew) => {
      if (isAnew) this.#mendUnread()
    })
  }

  get size(): number {
    return this.#held.size
  }

  has(nodeId: string): boolean {
    return this.#held.has(nodeId)
  }

  get(nodeId: string): Readonly<Held> | undefined {
    return this.#held.get(nodeId)
  }

  ids(): IterableIterator<string> {
    return this.#held.keys()
  }

  values(): IterableIterator<Readonly<Held>> {
    return this.#held.values()
  }

  /** The epoch of a node that is here as that instance: it comes back without a write. Null: it must `enter`. */
  resume({ nodeId, instanceId, holder, services, labels }: Caller): number | null {
    const held = this.#held.get(nodeId)
    if (held === undefined || held.isGone || this.#lanes.has(nodeId)) return null
    if (held.doc.instanceId !== instanceId) return null
    Object.assign(held, { holder, isWelcomed: false })
    this.refresh(nodeId, services, labels)
    return held.doc.epoch
  }

  /**
   * Makes the node this server's. Calls `done` in the order of the calls; null: it left, or the cluster state did not
   * answer.
   */
  enter(caller: Caller, done: (entered: Entered | null) => void): void {
    const { nodeId } = caller
    const { monotonicMs, onTrouble, changed } = this.#parts
    const until = monotonicMs() + enterWithinMs
    this.#inLane(nodeId, async () => {
      let entered: Entered | null = null
      // What goes on after the deadline must not take the node from where it has gone since.
      let isLate = false
      const isThere = () => !isLate && caller.isThere()
      try {
        const withinMs = Math.max(1, until - monotonicMs())
        const answer = await inTime(withinMs, () => this.#enter({ ...caller, isThere }))
        entered = answer?.entered ?? null
        if (entered?.kind === 'entered') this.#hold(caller, entered.doc, answer!.version)
      } catch (error) {
        isLate = true
        onTrouble(error)
      }
      done(entered)
      changed()
    })
  }

  /** The registry knows it by this epoch. */
  welcomed(nodeId: string, epoch: number, holder: object): void {
    const held = this.#held.get(nodeId)
    if (held?.holder !== holder) return
    held.isWelcomed = true
    if (held.doc.epoch === epoch) return
    this.#rewrite(held, { ...held.doc, epoch })
  }

  /** What it offers is another than before. */
  refresh(nodeId: string, services: readonly ServiceOffer[] | null, labels: Labels | null): void {
    const held = this.#held.get(nodeId)
    if (held === undefined) return
    const next = {
      ...held.doc,
      services: services === null ? held.doc.services : tidyServices(services),
      labels: labels ?? held.doc.labels,
    }
    if (offerOf(next) === offerOf(held.doc)) return
    const now = this.#parts.monotonicMs()
    if (now - held.refreshedAt < refreshEveryMs) {
      Object.assign(held, { doc: next, isStale: true })
      this.#late.add(held)
      this.#lateTimer ??= setTimeout(() => this.#writeLate(), refreshEveryMs)
      return
    }
    held.refreshedAt = now
    this.#rewrite(held, next)
  }

  #writeLate(): void {
    this.#lateTimer = undefined
    for (const held of this.#late) {
      if (this.#held.get(held.nodeId) !== held) continue
      held.refreshedAt = this.#parts.monotonicMs()
      this.#rewrite(held, held.doc)
    }
    this.#late.clear()
  }

  /** Writes no more by itself. */
  stop(): void {
    clearTimeout(this.#lateTimer)
  }

  /** It was given up, and may come back. */
  gone(nodeId: string, epoch: number): void {
    const held = this.#held.get(nodeId)
    if (held?.doc.epoch !== epoch) return
    held.isGone = true
    this.#parts.changed()
  }

  /**
   * The registry has forgotten it: its row goes, unless another server has it. A node that has come back since, and
   * that the registry has still to hear of, stays.
   */
  leave(nodeId: string, epoch: number): void {
    const held = this.#held.get(nodeId)
    if (held?.doc.epoch === epoch && (held.isWelcomed || held.isGone)) this.#drop(held)
  }

  /** Nothing came of that connection, for which it was held. */
  abandon(nodeId: string, holder: object): void {
    const held = this.#held.get(nodeId)
    if (held?.holder === holder) this.#drop(held)
  }

  #drop(held: Held): void {
    const { nodeId } = held
    this.#held.delete(nodeId)
    this.#parts.changed()
    const { cluster, onTrouble } = this.#parts
    this.#inLane(nodeId, async () => {
      const gone = { key: nodeId, doc: null, forMs: null }
      const drain = cluster.rows('drain').get(nodeId)
      try {
        const took = await cluster.write({ ...gone, kind: 'node', seen: held.version })
        if (took !== null && drain !== undefined) {
          await cluster.write({ ...gone, kind: 'drain', seen: drain.version })
        }
      } catch (error) {
        // The cluster upkeep removes it later.
        onTrouble(error)
      }
    })
  }

  /** This server has another name now. */
  renamed(): void {
    const { serverId: owner } = this.#parts
    for (const held of this.#held.values()) {
      if (held.doc.owner !== owner) this.#rewrite(held, { ...held.doc, owner })
    }
  }

  /**
   * Writes again what could not be written, and what the store lost before the cluster state had read it: no change
   * is reported for that.
   */
  mend(): void {
    for (const held of this.#held.values())
      if (held.isStale || this.#isLost(held)) this.#rewrite(held, held.doc)
  }

  /** The cluster state has read beyond what was written, and has nothing or something older: the store fell back. */
  #isLost({ nodeId, version }: Held): boolean {
    const { cluster } = this.#parts
    return version <= cluster.readVersion && (cluster.rows('node').get(nodeId)?.version ?? 0) < version
  }

  async #enter(caller: Caller): Promise<{ entered: Entered; version: number } | null> {
    const { nodeId, epoch, isThere, isWelcomed = false } = caller
    const { cluster, leastEpoch } = this.#parts
    // Cordons and drains must be known before anything is placed.
    await cluster.loaded
    // As far as this process knows; when that is too old, the store says so.
    let row: NodeRow | undefined = this.#held.get(nodeId) ?? asNode(cluster.rows('node').get(nodeId))
    for (let tries = 0; tries < conflictTries; tries += 1) {
      const { serverId } = this.#parts
      const at = { serverId, epoch, leastEpoch: leastEpoch(nodeId), now: Math.round(cluster.storeNow) }
      const entered = isWelcomed ? stayNode(row?.doc, caller, at) : enterNode(row?.doc, caller, at)
      if (entered.kind !== 'entered') {
        // For good: not on the strength of what may be old.
        if (tries > 0) return { entered, version: 0 }
        row = await this.#find(nodeId)
        continue
      }
      if (!isThere()) return null
      const written = JSON.stringify(entered.doc)
      const seen = row?.version ?? 0
      const version = await cluster.write({ kind: 'node', key: nodeId, seen, doc: written, forMs: null })
      if (version !== null) return { entered, version }
      row = await this.#find(nodeId)
    }
    throw new SignalboxError(
      'store_busy',
      `Node "${nodeId}" says hello in too many places at once; try again.`,
    )
  }

  #hold({ nodeId, holder, isWelcomed = false }: Caller, doc: NodeDoc, version: number): void {
    this.#held.set(nodeId, {
      ...{ nodeId, holder, isWelcomed, doc, version, isGone: false, isStale: false },
      refreshedAt: Number.NEGATIVE_INFINITY,
    })
    if (doc.owner !== this.#parts.serverId) this.renamed()
  }

  #heard({ key, version, row, isAnew = false }: ClusterChange): void {
    const held = this.#held.get(key)
    if (held === undefined) return
    if (isAnew) this.#voidVersion(held)
    if (row === undefined) {
      // Another server took this one for dead, or the store lost the row, and the socket is still here.
      this.#rewrite(held, held.doc)
      return
    }
    if (version <= held.version) return
    const { owner, epoch, instanceId } = row.doc as NodeDoc
    if (owner !== this.#parts.serverId) this.#lose(held, instanceId)
    else if (epoch === held.doc.epoch) held.version = version
    else if (isAnew) this.#rewrite(held, held.doc)
  }

  /** Writes rows again that the store lost before they were read: no change is reported for them. */
  #mendUnread(): void {
    for (const held of this.#held.values()) if (this.#voidVersion(held)) this.#rewrite(held, held.doc)
  }

  /**
   * True: the cluster state was read anew and not up to what this server wrote. That is lost, or was written just
   * now.
   */
  #voidVersion(held: Held): boolean {
    const isVoid = held.version > this.#parts.cluster.readVersion
    if (isVoid) held.version = 0
    return isVoid
  }

  #lose(held: Held, toInstance: string): void {
    if (this.#held.get(held.nodeId) !== held) return
    this.#held.delete(held.nodeId)
    const elsewhere = toInstance === held.doc.instanceId ? 'moved' : 'superseded'
    this.#parts.lost(held.nodeId, held.doc.epoch, elsewhere)
    this.#parts.changed()
  }

  #rewrite(known: Held, doc: NodeDoc): void {
    const held = Object.assign(known, { doc, isStale: true })
    this.#parts.changed()
    this.#inLane(held.nodeId, async () => {
      if (this.#held.get(held.nodeId) !== held || !held.isStale) return
      try {
        await this.#write(held)
      } catch (error) {
        this.#parts.onTrouble(error)
      }
    })
  }

  async #write(held: Held): Promise<void> {
    const { cluster } = this.#parts
    let seen = held.version
    for (let tries = 0; tries < conflictTries; tries += 1) {
      const { doc, nodeId: key } = held
      const version = await cluster.write({ kind: 'node', key, seen, doc: JSON.stringify(doc), forMs: null })
      if (version !== null) {
        held.version = version
        held.isStale = held.doc !== doc
        if (!held.isStale) return
        seen = version
        continue
      }
      const row = await this.#find(key)
      const isMine = row?.doc.owner === this.#parts.serverId && row.doc.instanceId === doc.instanceId
      // A row that is older than this server's own is no answer to it.
      if (row !== undefined && row.version > held.version && !isMine) {
        this.#lose(held, row.doc.instanceId)
        return
      }
      seen = row?.version ?? 0
    }
  }

  async #find(nodeId: string): Promise<NodeRow | undefined> {
    const row = await this.#parts.cluster.find('node', nodeId)
    return row && { version: row.version, doc: JSON.parse(row.doc!) as NodeDoc }
  }

  #inLane(nodeId: string, work: () => Promise<void>): void {
    const before = this.#lanes.get(nodeId) ?? Promise.resolve()
    const lane = before
      .then(work)
      .catch(this.#parts.onTrouble)
      .finally(() => {
        if (this.#lanes.get(nodeId) === lane) this.#lanes.delete(nodeId)
      })
    this.#lanes.set(nodeId, lane)
  }
}

interface NodeRow {
  readonly version: number
  readonly doc: NodeDoc
}

function offerOf({ services, labels }: NodeDoc): string {
  return JSON.stringify([services, labels])
}

function asNode(row: ClusterRow | undefined): NodeRow | undefined {
  return row && { version: row.version, doc: row.doc as NodeDoc }
}
