/**
 * The nodes that this server owns in the cluster state. A server owns a node by writing the node's row: it welcomes the
 * node only after that write. If another server writes the row later, that server owns the node.
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
  'cluster' | 'serverId' | 'monotonicMs' | 'leastEpoch' | 'lost' | 'changed' | 'onError'
>

/** A node that this server owns. */
interface Held {
  readonly nodeId: string
  /** The node's connection. */
  holder: object
  /** The registry welcomed this connection. Its earlier events were about another connection of the node. */
  isWelcomed: boolean
  doc: NodeDoc
  version: number
  /** The registry gave the node up: it gets no work until it connects again. */
  isGone: boolean
  /** The row differs from `doc` and must be written. */
  isStale: boolean
  /** The last write of a changed offer. */
  refreshedAt: number
}

/** A node that connects. */
export interface Caller extends Entrant {
  readonly nodeId: string
  /** The epoch for an unknown node. */
  readonly epoch: number
  readonly holder: object
  /** Whether the node still waits here. A node that went to another server must not be taken from it. */
  readonly isThere: () => boolean
  /** The registry has the node with this epoch: it stays, unless another server owns it by now. @default false */
  readonly isWelcomed?: boolean
}

/** How long a connecting node waits. */
const enterWithinMs = 5_000
const conflictTries = 8
/** The least time between two writes of a node's offer, because each makes all servers check all kinds again. */
const refreshEveryMs = 500

/** The nodes of this server. */
export class OwnNodes {
  readonly #parts: OwnNodesParts
  readonly #held = new Map<string, Held>()
  /** The last operation of each node. Operations of one node run one after the other, in the order of the calls. */
  readonly #operations = new Map<string, Promise<void>>()
  /** Nodes whose offer changed again too soon, until they are written together. */
  readonly #delayed = new Set<Held>()
  #delayedTimer: NodeJS.Timeout | undefined

  constructor(parts: OwnNodesParts) {
    this.#parts = parts
    parts.cluster.onChange((change) => {
      if (change.kind === 'node') this.#onRowChange(change)
    })
    parts.cluster.onRead((isAnew) => {
      if (isAnew) this.#rewriteUnread()
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

  /**
   * Resumes a node that this server owns as the same instance, without a write. Answers its epoch; null: call
   * `enter`.
   */
  resume({ nodeId, instanceId, holder, services, labels }: Caller): number | null {
    const held = this.#held.get(nodeId)
    if (held === undefined || held.isGone || this.#operations.has(nodeId)) return null
    if (held.doc.instanceId !== instanceId) return null
    Object.assign(held, { holder, isWelcomed: false })
    this.refresh(nodeId, services, labels)
    return held.doc.epoch
  }

  /**
   * Makes this server the owner of a node. Calls `done` in the order of the calls; null: the node left, or the cluster
   * state did not answer.
   */
  enter(caller: Caller, done: (entered: Entered | null) => void): void {
    const { nodeId } = caller
    const { monotonicMs, onError, changed } = this.#parts
    const until = monotonicMs() + enterWithinMs
    this.#inOrder(nodeId, async () => {
      let entered: Entered | null = null
      // After the deadline, a late write must not take the node from the server to which it went since.
      let isLate = false
      const isThere = () => !isLate && caller.isThere()
      try {
        const withinMs = Math.max(1, until - monotonicMs())
        const answer = await inTime(withinMs, () => this.#enter({ ...caller, isThere }))
        entered = answer?.entered ?? null
        if (entered?.kind === 'entered') this.#hold(caller, entered.doc, answer!.version)
      } catch (error) {
        isLate = true
        onError(error)
      }
      done(entered)
      changed()
    })
  }

  /** The registry welcomed the node with this epoch. */
  welcomed(nodeId: string, epoch: number, holder: object): void {
    const held = this.#held.get(nodeId)
    if (held?.holder !== holder) return
    held.isWelcomed = true
    if (held.doc.epoch === epoch) return
    this.#rewrite(held, { ...held.doc, epoch })
  }

  /** Writes a changed offer of a node. */
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
      this.#delayed.add(held)
      this.#delayedTimer ??= setTimeout(() => this.#writeDelayed(), refreshEveryMs)
      return
    }
    held.refreshedAt = now
    this.#rewrite(held, next)
  }

  #writeDelayed(): void {
    this.#delayedTimer = undefined
    for (const held of this.#delayed) {
      if (this.#held.get(held.nodeId) !== held) continue
      held.refreshedAt = this.#parts.monotonicMs()
      this.#rewrite(held, held.doc)
    }
    this.#delayed.clear()
  }

  /** Stops delayed writes. */
  stop(): void {
    clearTimeout(this.#delayedTimer)
  }

  /** The registry gave the node up. The node may connect again. */
  gone(nodeId: string, epoch: number): void {
    const held = this.#held.get(nodeId)
    if (held?.doc.epoch !== epoch) return
    held.isGone = true
    this.#parts.changed()
  }

  /**
   * The registry forgot the node: removes its row, unless another server owns it. A node stays if it connected again
   * and the registry has not welcomed it yet.
   */
  leave(nodeId: string, epoch: number): void {
    const held = this.#held.get(nodeId)
    if (held?.doc.epoch === epoch && (held.isWelcomed || held.isGone)) this.#drop(held)
  }

  /** Gives a node up whose connection was refused. */
  abandon(nodeId: string, holder: object): void {
    const held = this.#held.get(nodeId)
    if (held?.holder === holder) this.#drop(held)
  }

  #drop(held: Held): void {
    const { nodeId } = held
    this.#held.delete(nodeId)
    this.#parts.changed()
    const { cluster, onError } = this.#parts
    this.#inOrder(nodeId, async () => {
      const gone = { key: nodeId, doc: null, forMs: null }
      const drain = cluster.rows('drain').get(nodeId)
      try {
        const version = await cluster.write({ ...gone, kind: 'node', seen: held.version })
        if (version !== null && drain !== undefined) {
          await cluster.write({ ...gone, kind: 'drain', seen: drain.version })
        }
      } catch (error) {
        // The cluster upkeep removes it later.
        onError(error)
      }
    })
  }

  /** Writes all rows again, because this server has a new name. */
  renamed(): void {
    const { serverId: owner } = this.#parts
    for (const held of this.#held.values()) {
      if (held.doc.owner !== owner) this.#rewrite(held, { ...held.doc, owner })
    }
  }

  /**
   * Writes again the rows that could not be written, and the rows that the store lost before the cluster state read
   * them: no change is reported for these.
   */
  rewriteLost(): void {
    for (const held of this.#held.values())
      if (held.isStale || this.#isLost(held)) this.#rewrite(held, held.doc)
  }

  /** Whether the store lost the row: the cluster state has read beyond its version, and has no row or an older one. */
  #isLost({ nodeId, version }: Held): boolean {
    const { cluster } = this.#parts
    return version <= cluster.readVersion && (cluster.rows('node').get(nodeId)?.version ?? 0) < version
  }

  async #enter(caller: Caller): Promise<{ entered: Entered; version: number } | null> {
    const { nodeId, epoch, isThere, isWelcomed = false } = caller
    const { cluster, leastEpoch } = this.#parts
    // Cordons and drains must be known before tasks are placed on the node.
    await cluster.loaded
    // This row may be old. Then the store refuses the write.
    let row: NodeRow | undefined = this.#held.get(nodeId) ?? asNode(cluster.rows('node').get(nodeId))
    for (let tries = 0; tries < conflictTries; tries += 1) {
      const { serverId } = this.#parts
      const at = { serverId, epoch, leastEpoch: leastEpoch(nodeId), now: Math.round(cluster.storeNow) }
      const entered = isWelcomed ? stayNode(row?.doc, caller, at) : enterNode(row?.doc, caller, at)
      if (entered.kind !== 'entered') {
        // A refusal is final, so it must not be based on a row that may be old.
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
      `Node "${nodeId}" connects to several servers at once: its row changed ${conflictTries} times. Try again.`,
    )
  }

  #hold({ nodeId, holder, isWelcomed = false }: Caller, doc: NodeDoc, version: number): void {
    this.#held.set(nodeId, {
      ...{ nodeId, holder, isWelcomed, doc, version, isGone: false, isStale: false },
      refreshedAt: Number.NEGATIVE_INFINITY,
    })
    if (doc.owner !== this.#parts.serverId) this.renamed()
  }

  #onRowChange({ key, version, row, isAnew = false }: ClusterChange): void {
    const held = this.#held.get(key)
    if (held === undefined) return
    if (isAnew) this.#voidVersion(held)
    if (row === undefined) {
      // The node is connected here, so the row must exist: another server took this one for dead, or the store lost it.
      this.#rewrite(held, held.doc)
      return
    }
    if (version <= held.version) return
    const { owner, epoch, instanceId } = row.doc as NodeDoc
    if (owner !== this.#parts.serverId) this.#lose(held, instanceId)
    else if (epoch === held.doc.epoch) held.version = version
    else if (isAnew) this.#rewrite(held, held.doc)
  }

  /** Writes the rows again that the store lost before this process read them: no change is reported for them. */
  #rewriteUnread(): void {
    for (const held of this.#held.values()) if (this.#voidVersion(held)) this.#rewrite(held, held.doc)
  }

  /**
   * Resets the version of a row that the new reading did not reach. The store lost that row, or it was written just
   * now. True: the version was reset.
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
    this.#inOrder(held.nodeId, async () => {
      if (this.#held.get(held.nodeId) !== held || !held.isStale) return
      try {
        await this.#write(held)
      } catch (error) {
        this.#parts.onError(error)
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
      // A row that is older than this server's own does not take the node away.
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

  #inOrder(nodeId: string, work: () => Promise<void>): void {
    const before = this.#operations.get(nodeId) ?? Promise.resolve()
    const operation = before
      .then(work)
      .catch(this.#parts.onError)
      .finally(() => {
        if (this.#operations.get(nodeId) === operation) this.#operations.delete(nodeId)
      })
    this.#operations.set(nodeId, operation)
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
