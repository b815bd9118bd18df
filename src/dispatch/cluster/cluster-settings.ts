/**
 * Pools, cordons and drains: the settings of operators, permanent and for all servers. The row is written first. Every
 * server that reads it updates its registry. So a setting applies at every server, and after a restart too.
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

/** A drain in the cluster state. It applies only to this epoch of the node. */
export interface DrainDoc {
  readonly epoch: number
  /** By the store's clock. */
  readonly deadlineAt: number | null
}

/** How soon to post again when the mailbox is full of operators' commands. */
const retryMs = 5
/** A request that cannot be written within this time is given up. */
const writeWithinMs = 8_000

/** The settings of operators. */
export class ClusterSettings {
  readonly #sharing: Sharing
  readonly #rules = new Map<string, readonly Term[]>()
  readonly #cordons = new Map<string, Set<string | null>>()
  /** Commands that the mailbox has not accepted yet. */
  readonly #unposted: Command[] = []
  /** The last write. Writes of this process run one after the other, so that they do not conflict. */
  #writing: Promise<unknown> = Promise.resolve()
  #isPosting = false

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    sharing.cluster.onChange((change) => this.#apply(change))
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
   * Whether a node could run tasks of a kind, with or without free slots: operators left it open, and it meets all
   * terms.
   */
  couldDo({ uses, requires }: TaskKind, nodeId: string, { epoch, services, labels }: NodeDoc): boolean {
    if (this.isDraining(nodeId, epoch)) return false
    const cordons = this.#cordons.get(nodeId)
    if (cordons?.has(null) || Object.keys(uses).some((service) => cordons?.has(service))) return false
    return slotsFor(uses, services) > 0 && allHold(requires, { services, labels }, this.#rules)
  }

  /** The drain that applies to a node that connects, with its deadline by this process's clock. */
  drainOf(nodeId: string, epoch: number): { readonly deadlineAt: number | null } | undefined {
    const doc = this.#sharing.cluster.rows('drain').get(nodeId)?.doc as DrainDoc | undefined
    return doc?.epoch === epoch ? { deadlineAt: this.#localOf(doc.deadlineAt) } : undefined
  }

  async definePool(name: string, requires: readonly Term[]): Promise<void> {
    await this.#write('pool', name, { requires })
  }

  /** Removes a pool. False: no pool has that name. */
  async removePool(name: string): Promise<boolean> {
    return this.#write('pool', name, null)
  }

  async cordon(nodeId: string, service: string | null, on: boolean): Promise<void> {
    await this.#write('cordon', JSON.stringify([nodeId, service]), on ? {} : null)
  }

  /** Drains a node, or (null) lifts its drain. */
  async drain(nodeId: string, doc: DrainDoc | null): Promise<void> {
    await this.#write('drain', nodeId, doc)
  }

  /** Resolves when the registry has applied all commands. */
  async applied(): Promise<void> {
    const { mailbox } = this.#sharing
    while (this.#unposted.length > 0 && !mailbox.isClosed) await nextTurn()
    const last = mailbox.adminServed + mailbox.depth().admin
    while (mailbox.adminServed < last && !mailbox.isClosed) await nextTurn()
  }

  async #write(kind: 'pool' | 'cordon' | 'drain', key: string, doc: object | null): Promise<boolean> {
    const { cluster, monotonicMs } = this.#sharing
    const until = monotonicMs() + writeWithinMs
    const written = this.#writing.then(() => {
      // Earlier writes took so long that the caller no longer waits for this one.
      if (monotonicMs() > until) throw timedOut()
      return cluster.change(kind, key, (row) => {
        // There is no row to remove.
        return doc === null && row === undefined ? undefined : { doc, forMs: null }
      })
    })
    this.#writing = written.catch(() => undefined)
    const version = await written
    await cluster.catchUp()
    await this.applied()
    return version !== undefined
  }

  #apply({ kind, key, row }: ClusterChange): void {
    const isThere = row !== undefined
    if (kind === 'pool') {
      if (isThere) {
        const { requires } = row.doc as { readonly requires: readonly Term[] }
        this.#rules.set(key, requires)
        this.#post({ kind: 'definePool', name: key, requires })
      } else if (this.#rules.delete(key)) {
        this.#post({ kind: 'removePool', name: key })
      }
    } else if (kind === 'cordon') {
      const [nodeId, service] = JSON.parse(key) as [string, string | null]
      this.#mark(nodeId, service, isThere)
      this.#post({ kind: 'cordon', nodeId, service, on: isThere })
    } else if (kind === 'drain') {
      const { epoch, deadlineAt } = (row?.doc ?? { deadlineAt: null }) as Partial<DrainDoc>
      const when = {
        deadlineAt: this.#localOf(deadlineAt ?? null),
        ...(epoch === undefined ? {} : { epoch }),
      }
      this.#post({ kind: 'drain', nodeId: key, on: isThere, ...when })
    }
  }

  #mark(nodeId: string, service: string | null, on: boolean): void {
    const cordons = this.#cordons.get(nodeId) ?? new Set()
    if (on) cordons.add(service)
    else cordons.delete(service)
    if (cordons.size > 0) this.#cordons.set(nodeId, cordons)
    else this.#cordons.delete(nodeId)
  }

  /** Converts an instant of the store's clock to this process's clock. */
  #localOf(at: number | null): number | null {
    const { cluster, now } = this.#sharing
    return at === null ? null : now() + Math.max(0, Math.round(at - cluster.storeNow))
  }

  /** Posts a command, in order, as soon as the mailbox accepts it. */
  #post(command: Command): void {
    // This server drains its own nodes only; other servers drain theirs.
    if (command.kind === 'drain' && !this.#sharing.ownNodes.has(command.nodeId)) return
    this.#unposted.push(command)
    if (!this.#isPosting) this.#postAll()
  }

  #postAll(): void {
    const { mailbox } = this.#sharing
    let posted = 0
    while (posted < this.#unposted.length && mailbox.post(this.#unposted[posted]!)) posted += 1
    this.#unposted.splice(0, posted)
    this.#isPosting = this.#unposted.length > 0 && !mailbox.isClosed
    if (this.#isPosting) setTimeout(() => this.#postAll(), retryMs)
  }
}

function timedOut(): SignalboxError {
  const message = `The cluster state did not answer within ${writeWithinMs} ms; nothing was changed.`
  return new SignalboxError('store_unavailable', message)
}
