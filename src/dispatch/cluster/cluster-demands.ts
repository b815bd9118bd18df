/**
 * The demands of tasks in the cluster state. With them every server knows which kinds its nodes could run. A submit
 * writes the demand before the task. If there are too many demands, or the cluster state does not answer, the task
 * gets a kind that any server claims. Then it takes longer to reach its node.
 */

import type { Asked, TaskKind } from '../matching/demand.ts'
import type { Registry } from '../registry/registry.ts'
import { anyKind, demandKind } from '../tasks/task-document.ts'
import { inTime } from '../time-limits.ts'
import type { Sharing } from './server-sharing.ts'

/** The parts that the demands need. */
export interface ClusterDemandsParts
  extends Pick<Sharing, 'cluster' | 'monotonicMs' | 'isFollowing' | 'onError'> {
  readonly registry: Pick<Registry, 'heldKinds'>
}

const keepMs = 86_400_000
const renewAfterMs = 21_600_000
/** The most demands in the cluster state. */
const maxDemands = 5_000
/** How long a submit waits for the cluster state, once for each demand that is new to it. */
const registerWithinMs = 1_000
/** After a failed registration, submits do not wait for it for this long. */
const failurePauseMs = 5_000
/** After this time a written row must appear in the cluster state; otherwise it counts as lost. */
const seenWithinMs = 5_000
/** How often the rows of demands of held tasks are checked. They are also checked when a row is removed. */
const checkEveryMs = 60_000
/** How many rows are written at a time. */
const batchSize = 200

/** The demands of the cluster. */
export class ClusterDemands {
  readonly #parts: ClusterDemandsParts
  /** The last answer for each kind: the kind itself, or `anyKind`. */
  readonly #known = new Map<string, Known>()
  readonly #registering = new Map<string, Promise<string>>()
  #checkedAt = Number.NEGATIVE_INFINITY
  #isChecking = false

  constructor(parts: ClusterDemandsParts) {
    this.#parts = parts
    parts.cluster.onChange(({ kind, key, row }) => {
      if (kind !== 'demand' || row !== undefined) return
      this.#known.delete(key)
      this.#checkedAt = Number.NEGATIVE_INFINITY
      setImmediate(() => void this.renewRows())
    })
  }

  /** The kind for the job of a task with these requirements. A kind that is new here is registered first. */
  async kindFor(asked: Asked): Promise<string> {
    const kind = demandKind(asked)
    const known = this.#known.get(kind)
    if (known !== undefined && this.#isValid(kind, known)) return known.kind
    let registering = this.#registering.get(kind)
    if (registering === undefined) {
      registering = this.#register(kind, asked).finally(() => this.#registering.delete(kind))
      this.#registering.set(kind, registering)
    }
    return registering
  }

  /** Whether other servers would claim tasks of the kind: its row exists, or the cluster state is full. */
  canBeFound(kind: string): boolean {
    if (this.#has(kind)) return true
    const known = this.#known.get(kind)
    return known?.isFull === true && this.#isValid(kind, known)
  }

  /** The requirements of a kind in the cluster state. */
  find(kind: string): TaskKind | undefined {
    const row = this.#parts.cluster.rows('demand').get(kind)
    if (row === undefined) return undefined
    const { uses, requires } = row.doc as Asked
    return { kind, uses, requires }
  }

  /** Registers the kind of a claimed task again if its row has expired, so that other servers know it too. */
  learn({ kind, service, uses, requires }: Asked & { readonly kind: string }): void {
    if (!this.#has(kind)) this.kindFor({ service, uses, requires }).catch(this.#parts.onError)
  }

  /** Writes missing and old rows of demands of held tasks, because a task may wait for longer than a row lasts. */
  async renewRows(): Promise<void> {
    const { registry, cluster, isFollowing, monotonicMs, onError } = this.#parts
    if (this.#isChecking || !cluster.isLoaded || !isFollowing) return
    if (monotonicMs() - this.#checkedAt < checkEveryMs) return
    this.#isChecking = true
    this.#checkedAt = monotonicMs()
    try {
      const rows = cluster.rows('demand')
      const missing = new Map<string, Asked>()
      for (const asked of registry.heldKinds()) {
        const row = rows.get(asked.kind)
        const isThere = row !== undefined && this.#isFresh(row.expiresAt)
        if (!isThere) missing.set(asked.kind, asked)
      }
      const asked = [...missing.values()]
      for (let at = 0; at < asked.length; at += batchSize) {
        const kinds = await Promise.all(asked.slice(at, at + batchSize).map((each) => this.kindFor(each)))
        // Some rows could not be written: try again soon.
        if (kinds.includes(anyKind)) this.#checkedAt = monotonicMs() - checkEveryMs + failurePauseMs
      }
    } catch (error) {
      onError(error)
    } finally {
      this.#isChecking = false
    }
  }

  /** Whether a known answer is still valid. If this process follows the cluster state, the row must exist there. */
  #isValid(kind: string, { kind: answer, at, until }: Known): boolean {
    const now = this.#parts.monotonicMs()
    if (until <= now) return false
    return answer === anyKind || !this.#parts.isFollowing || now - at < seenWithinMs || this.#has(kind)
  }

  #has(kind: string): boolean {
    return this.#parts.cluster.rows('demand').has(kind)
  }

  async #register(kind: string, asked: Asked): Promise<string> {
    const { monotonicMs, onError } = this.#parts
    let answer: Omit<Known, 'at'>
    try {
      const isThere = await inTime(registerWithinMs, () => this.#writeRow(kind, asked))
      answer = isThere
        ? { kind, until: monotonicMs() + renewAfterMs }
        : { kind: anyKind, until: monotonicMs() + failurePauseMs, isFull: true }
    } catch (error) {
      onError(error)
      answer = { kind: anyKind, until: monotonicMs() + failurePauseMs }
    }
    if (this.#known.size >= 2 * maxDemands) this.#known.delete(this.#known.keys().next().value!)
    this.#known.set(kind, { ...answer, at: monotonicMs() })
    return answer.kind
  }

  /** Writes the row of a demand. False: the cluster state is full. */
  async #writeRow(kind: string, { service, uses, requires }: Asked): Promise<boolean> {
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
  /** The kind itself, or `anyKind`. */
  readonly kind: string
  readonly at: number
  readonly until: number
  /** The cluster state has no capacity for the row. */
  readonly isFull?: boolean
}
