/**
 * Pools, cordons and drains: what operators decide, for all servers and for good. The row is written first; every
 * server that reads it informs its registry. So they count at every server, and after a restart too.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { SignalboxError } from '../../core/errors.ts'
import { slotsFor, type TaskKind } from '../matching/demand.ts'
import { allHold, type PoolRules } from '../matching/requirement.ts'
import type { Term } from '../node.ts'
import type { Command } from '../registry/command.ts'
import type { ClusterChange } from './cluster-state.ts'
import type { NodeDoc } from './node-ownership.ts'
import type { Sharing } from './server-sharing.ts'

/** A drain in the cluster state. It counts for that epoch of the node only. */
export interface DrainDoc {
  readonly epoch: number
  /** By the store's clock. */
  readonly deadlineAt: number | null
}

/** Tried again so soon when the registry is full of operators' commands. */
const retryMs = 5
/** A request that could not be written within this time is given up. */
const wordWithinMs = 8_000

/** What operators decided. */
export class ClusterSettings {
  readonly #sharing: Sharing
  readonly #rules = new Map<string, readonly Term[]>()
  readonly #cordons = new Map<string, Set<string | null>>()
  readonly #untold: Command[] = []
  /** One after the other: those of this process do not get into each other's way. */
  #writing: Promise<unknown> = Promise.resolve()
  #isTelling = false

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    sharing.cluster.onChange((change) => this.#heard(change))
  }

  /** The pools defined by name. */
  get rules(): PoolRules {
    return this.#rules
  }

  /** Whether a node, or one of its services (null: the node itself), is closed for new work. */
  isCordoned(nodeId: string, service: string | null): boolean {
    return this.#cordons.get(nodeId)?.has(service) === true
  }

  isDraining(nodeId: string, epoch: number): boolean {
    return (this.#sharing.cluster.rows('drain').get(nodeId)?.doc as DrainDoc | undefined)?.epoch === epoch
  }

  /**
   * Whether a node could do what a task asks for, with free slots or without: operators left it open, and it meets
   * all terms.
   */
  couldDo({ uses, requires }: TaskKind, nodeId: string, { epoch, services, labels }: NodeDoc): boolean {
    if (this.isDraining(nodeId, epoch)) return false
    const cordons = this.#cordons.get(nodeId)
    if (cordons?.has(null) || Object.keys(uses).some((service) => cordons?.has(service))) return false
    return slotsFor(uses, services) > 0 && allHold(requires, { services, labels }, this.#rules)
  }

  /** The drain that counts for a node that comes in, with its deadline by this process's clock. */
  drainOf(nodeId: string, epoch: number): { readonly deadlineAt: number | null } | undefined {
    const doc = this.#sharing.cluster.rows('drain').get(nodeId)?.doc as DrainDoc | undefined
    return doc?.epoch === epoch ? { deadlineAt: this.#localOf(doc.deadlineAt) } : undefined
  }

  async definePool(name: string, requires: readonly Term[]): Promise<void> {
    await this.#write('pool', name, { requires })
  }

  /** False: there was none. */
  async removePool(name: string): Promise<boolean> {
    return this.#write('pool', name, null)
  }

  async cordon(nodeId: string, service: string | null, on: boolean): Promise<void> {
    await this.#write('cordon', JSON.stringify([nodeId, service]), on ? {} : null)
  }

  /** Null lifts it. */
  async drain(nodeId: string, doc: DrainDoc | null): Promise<void> {
    await this.#write('drain', nodeId, doc)
  }

  /** Resolves when the registry has applied all commands. */
  async applied(): Promise<void> {
    const { mailbox } = this.#sharing
    while (this.#untold.length > 0 && !mailbox.isClosed) await nextTurn()
    const last = mailbox.adminServed + mailbox.depth().admin
    while (mailbox.adminServed < last && !mailbox.isClosed) await nextTurn()
  }

  async #write(kind: 'pool' | 'cordon' | 'drain', key: string, doc: object | null): Promise<boolean> {
    const { cluster, monotonicMs } = this.#sharing
    const until = monotonicMs() + wordWithinMs
    const written = this.#writing.then(() => {
      // Earlier writes took so long that the caller no longer waits for this one.
      if (monotonicMs() > until) throw notHeard()
      return cluster.change(kind, key, (row) => {
        // Nothing to take away.
        return doc === null && row === undefined ? undefined : { doc, forMs: null }
      })
    })
    this.#writing = written.catch(() => undefined)
    const version = await written
    await cluster.catchUp()
    await this.applied()
    return version !== undefined
  }

  #heard({ kind, key, row }: ClusterChange): void {
    const isThere = row !== undefined
    if (kind === 'pool') {
      if (isThere) {
        const { requires } = row.doc as { readonly requires: readonly Term[] }
        this.#rules.set(key, requires)
        this.#tell({ kind: 'definePool', name: key, requires })
      } else if (this.#rules.delete(key)) {
        this.#tell({ kind: 'removePool', name: key })
      }
    } else if (kind === 'cordon') {
      const [nodeId, service] = JSON.parse(key) as [string, string | null]
      this.#mark(nodeId, service, isThere)
      this.#tell({ kind: 'cordon', nodeId, service, on: isThere })
    } else if (kind === 'drain') {
      const { epoch, deadlineAt } = (row?.doc ?? { deadlineAt: null }) as Partial<DrainDoc>
      const when = {
        deadlineAt: this.#localOf(deadlineAt ?? null),
        ...(epoch === undefined ? {} : { epoch }),
      }
      this.#tell({ kind: 'drain', nodeId: key, on: isThere, ...when })
    }
  }

  #mark(nodeId: string, service: string | null, on: boolean): void {
    const cordons = this.#cordons.get(nodeId) ?? new Set()
    if (on) cordons.add(service)
    else cordons.delete(service)
    if (cordons.size > 0) this.#cordons.set(nodeId, cordons)
    else this.#cordons.delete(nodeId)
  }

  /** An instant of the store's clock by this process's own. */
  #localOf(at: number | null): number | null {
    const { cluster, now } = this.#sharing
    return at === null ? null : now() + Math.max(0, Math.round(at - cluster.storeNow))
  }

  /** In order, as fast as the registry takes it. */
  #tell(command: Command): void {
    // Drains are for nodes that are here; other servers handle theirs.
    if (command.kind === 'drain' && !this.#sharing.ownNodes.has(command.nodeId)) return
    this.#untold.push(command)
    if (!this.#isTelling) this.#pump()
  }

  #pump(): void {
    const { mailbox } = this.#sharing
    let told = 0
    while (told < this.#untold.length && mailbox.post(this.#untold[told]!)) told += 1
    this.#untold.splice(0, told)
    this.#isTelling = this.#untold.length > 0 && !mailbox.isClosed
    if (this.#isTelling) setTimeout(() => this.#pump(), retryMs)
  }
}

function notHeard(): SignalboxError {
  const message = `The cluster state did not answer within ${wordWithinMs} ms; nothing was changed.`
  return new SignalboxError('store_unavailable', message)
}
