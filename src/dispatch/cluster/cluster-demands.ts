/**
 * What tasks ask for, in the cluster state, so that every server knows which kinds its nodes could do. A submit writes
 * the demand before the task. With too many demands, or a cluster state that does not answer, the task gets a kind that
 * any server claims; then it takes longer to reach its node.
 */

import type { Asked, TaskKind } from '../matching/demand.ts'
import type { Registry } from '../registry/registry.ts'
import { anyKind, demandKind } from '../tasks/task-document.ts'
import { inTime } from '../time-limits.ts'
import type { Sharing } from './server-sharing.ts'

/** What the demands need. */
export interface ClusterDemandsParts
  extends Pick<Sharing, 'cluster' | 'monotonicMs' | 'isFollowing' | 'onTrouble'> {
  readonly registry: Pick<Registry, 'heldKinds'>
}

const keepMs = 86_400_000
const renewAfterMs = 21_600_000
/** The most demands in the cluster state. */
const maxDemands = 5_000
/** How long a submit waits for the cluster state, once for each demand that is new to it. */
const registerWithinMs = 1_000
/** After a failed registration, submits do not wait for it for this long. */
const troubleMs = 5_000
/** A row that was written is seen in the cluster state by then, or it is not there. */
const seenWithinMs = 5_000
/** Demands of held tasks are looked over this often, and when a row has gone. */
const lookOverEveryMs = 60_000
/** Rows written at a time. */
const biteSize = 200

/** The demands of the cluster. */
export class ClusterDemands {
  readonly #parts: ClusterDemandsParts
  /** When a kind was last seen in the cluster state, or (as the kind for any server) that the state is full. */
  readonly #known = new Map<string, Known>()
  readonly #registering = new Map<string, Promise<string>>()
  #lookedAt = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(parts: ClusterDemandsParts) {
    this.#parts = parts
    parts.cluster.onChange(({ kind, key, row }) => {
      if (kind !== 'demand' || row !== undefined) return
      this.#known.delete(key)
      this.#lookedAt = Number.NEGATIVE_INFINITY
      setImmediate(() => void this.lookOver())
    })
  }

  /** The kind for the job of a task that asks for this. A kind that is new here is looked up in the cluster state. */
  async kindFor(asked: Asked): Promise<string> {
    const kind = demandKind(asked)
    const known = this.#known.get(kind)
    if (known !== undefined && this.#counts(kind, known)) return known.kind
    let registering = this.#registering.get(kind)
    if (registering === undefined) {
      registering = this.#register(kind, asked).finally(() => this.#registering.delete(kind))
      this.#registering.set(kind, registering)
    }
    return registering
  }

  /** Whether other servers would claim tasks of the kind: it is in the cluster state, or the state is full. */
  canBeFound(kind: string): boolean {
    if (this.#has(kind)) return true
    const known = this.#known.get(kind)
    return known?.isFull === true && this.#counts(kind, known)
  }

  /** What tasks of a kind in the cluster state ask for. */
  find(kind: string): TaskKind | undefined {
    const row = this.#parts.cluster.rows('demand').get(kind)
    if (row === undefined) return undefined
    const { uses, requires } = row.doc as Asked
    return { kind, uses, requires }
  }

  /** A task of that kind is here: its row may have expired meanwhile, and other servers must find it too. */
  learn({ kind, service, uses, requires }: Asked & { readonly kind: string }): void {
    if (!this.#has(kind)) this.kindFor({ service, uses, requires }).catch(this.#parts.onTrouble)
  }

  /** Writes the rows of demands held here that are gone or getting old: a task may wait for longer than a row lasts. */
  async lookOver(): Promise<void> {
    const { registry, cluster, isFollowing, monotonicMs, onTrouble } = this.#parts
    if (this.#isLooking || !cluster.isLoaded || !isFollowing) return
    if (monotonicMs() - this.#lookedAt < lookOverEveryMs) return
    this.#isLooking = true
    this.#lookedAt = monotonicMs()
    try {
      const rows = cluster.rows('demand')
      const missing = new Map<string, Asked>()
      for (const asked of registry.heldKinds()) {
        const row = rows.get(asked.kind)
        const isThere = row !== undefined && this.#isFresh(row.expiresAt)
        if (!isThere) missing.set(asked.kind, asked)
      }
      const asked = [...missing.values()]
      for (let at = 0; at < asked.length; at += biteSize) {
        const kinds = await Promise.all(asked.slice(at, at + biteSize).map((each) => this.kindFor(each)))
        // Not all could be written: again soon.
        if (kinds.includes(anyKind)) this.#lookedAt = monotonicMs() - lookOverEveryMs + troubleMs
      }
    } catch (error) {
      onTrouble(error)
    } finally {
      this.#isLooking = false
    }
  }

  /** Where the cluster state is read all the time, a row counts when it was seen. */
  #counts(kind: string, { kind: answer, at, until }: Known): boolean {
    const now = this.#parts.monotonicMs()
    if (until <= now) return false
    return answer === anyKind || !this.#parts.isFollowing || now - at < seenWithinMs || this.#has(kind)
  }

  #has(kind: string): boolean {
    return this.#parts.cluster.rows('demand').has(kind)
  }

  async #register(kind: string, asked: Asked): Promise<string> {
    const { monotonicMs, onTrouble } = this.#parts
    let answer: Omit<Known, 'at'>
    try {
      const isThere = await inTime(registerWithinMs, () => this.#place(kind, asked))
      answer = isThere
        ? { kind, until: monotonicMs() + renewAfterMs }
        : { kind: anyKind, until: monotonicMs() + troubleMs, isFull: true }
    } catch (error) {
      onTrouble(error)
      answer = { kind: anyKind, until: monotonicMs() + troubleMs }
    }
    if (this.#known.size >= 2 * maxDemands) this.#known.delete(this.#known.keys().next().value!)
    this.#known.set(kind, { ...answer, at: monotonicMs() })
    return answer.kind
  }

  /** False: the cluster state is full. */
  async #place(kind: string, { service, uses, requires }: Asked): Promise<boolean> {
    const { cluster, isFollowing } = this.#parts
    if (!isFollowing || !cluster.isLoaded) await cluster.catchUp()
    const rows = cluster.rows('demand')
    const row = rows.get(kind)
    if (row !== undefined && this.#isFresh(row.expiresAt)) return true
    if (row === undefined && rows.size >= maxDemands) return false
    await cluster.change('demand', kind, (found) => {
      if (found !== undefined && this.#isFresh(found.expiresAt)) return undefined
      return { doc: { service, uses, requires }, forMs: keepMs }
    })
    return true
  }

  #isFresh(expiresAt: number | null): boolean {
    return expiresAt === null || expiresAt - this.#parts.cluster.storeNow > keepMs - renewAfterMs
  }
}

interface Known {
  /** The kind itself, or the one that any server claims. */
  readonly kind: string
  readonly at: number
  readonly until: number
  /** The cluster state has no capacity for it. */
  readonly isFull?: boolean
}
