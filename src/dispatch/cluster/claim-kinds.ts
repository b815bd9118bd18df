/**
 * Decides which tasks this server claims. A server that is alone claims all tasks. Otherwise it claims tasks that one
 * of its nodes could run, and tasks of `anyKind`. The first server also claims tasks that no node could run, because
 * one server must hold them and end them at their deadlines.
 */

import type { TaskKind } from '../matching/demand.ts'
import { anyKind } from '../tasks/task-document.ts'
import { TimeSlice } from '../time-limits.ts'
import type { Sharing } from './server-sharing.ts'

/** The parameters of one claim of tasks. */
export interface TaskClaimRequest {
  /** Null: any. */
  readonly kinds: readonly string[] | null
  readonly limit: number
  /** Whether to claim again at once if the claim reaches its limit. */
  readonly repeats: boolean
}

/** The most kinds and the most tasks of one claim. */
const kindsPerClaim = 200
const claimLimit = 500
/** A safety net: the first server regularly claims a few tasks of any kind. */
const fallbackClaim = { everyMs: 10_000, limit: 10 } as const

/** The kinds to claim. */
export class ClaimKinds {
  readonly #sharing: Sharing
  /** By kind: the own node, and the other server's node, that could run it at the last check. It is tried first. */
  readonly #own = new Map<string, string>()
  readonly #others = new Map<string, string>()
  /** Yielded kinds, and until when they are left to other servers. */
  readonly #resting = new Map<string, number>()
  /** New kinds. They are checked before all others. */
  readonly #newKinds = new Set<string>()
  /** Kinds that this round must still check. */
  readonly #unchecked = new Set<string>()
  /** Nodes or settings changed, so all kinds must be checked again. */
  #isOutdated = false
  #isChecking = false
  readonly #claimable: Set<string> = new Set([anyKind])
  #fallbackAt: number

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    this.#fallbackAt = sharing.monotonicMs()
    sharing.cluster.onChange(({ kind, key, row }) => {
      if (kind === 'demand') this.#onDemandChange(key, row !== undefined)
      else if (kind !== 'server') this.changed()
    })
  }

  /** The claims to make now. */
  claimRequests(): readonly TaskClaimRequest[] {
    const { servers, monotonicMs } = this.#sharing
    if (servers.others.length === 0) return [{ kinds: null, limit: claimLimit, repeats: true }]
    const now = monotonicMs()
    const kinds = this.#claimableNow(now)
    const requests: TaskClaimRequest[] = []
    for (let at = 0; at < kinds.length; at += kindsPerClaim) {
      requests.push({ kinds: kinds.slice(at, at + kindsPerClaim), limit: claimLimit, repeats: true })
    }
    if (servers.isFirst && now - this.#fallbackAt >= fallbackClaim.everyMs) {
      this.#fallbackAt = now
      requests.push({ kinds: null, limit: fallbackClaim.limit, repeats: false })
    }
    return requests
  }

  get resting(): readonly string[] {
    return [...this.#resting.keys()]
  }

  /** Leaves a kind to other servers for a while. */
  rest(kind: string, forMs: number): void {
    this.#resting.set(kind, this.#sharing.monotonicMs() + forMs)
  }

  /** Claims a kind again, because this server has free slots for it. */
  wake(kind: string): void {
    if (this.#resting.delete(kind)) this.#sharing.wake()
  }

  /** Checks all kinds again, because nodes or settings changed. */
  changed(): void {
    this.#isOutdated = true
    this.#checkSoon()
  }

  #onDemandChange(kind: string, isThere: boolean): void {
    if (!isThere) {
      for (const each of [this.#newKinds, this.#unchecked, this.#own, this.#others, this.#claimable])
        each.delete(kind)
    } else if (!this.#claimable.has(kind)) {
      this.#newKinds.add(kind)
      this.#checkSoon()
    }
  }

  #checkSoon(): void {
    if (this.#isChecking) return
    this.#isChecking = true
    setImmediate(() => void this.#check())
  }

  #claimableNow(now: number): readonly string[] {
    for (const [kind, until] of this.#resting) if (until <= now) this.#resting.delete(kind)
    return [...this.#claimable].filter((kind) => !this.#resting.has(kind))
  }

  /** Checks kinds until none is left. A server that is alone claims all kinds without a check. */
  async #check(): Promise<void> {
    const { servers, wake } = this.#sharing
    const slice = new TimeSlice()
    while (servers.others.length > 0) {
      const kind = this.#next()
      if (kind === undefined) break
      if (!(await this.#claims(kind, slice))) this.#claimable.delete(kind)
      else if (!this.#claimable.has(kind)) {
        this.#claimable.add(kind)
        wake()
      }
      if (slice.isOver) await slice.pause()
    }
    // In the same turn as the last check, so that a later change starts a new one.
    this.#isChecking = false
  }

  #next(): string | undefined {
    if (this.#unchecked.size === 0 && this.#isOutdated) {
      this.#isOutdated = false
      for (const kind of this.#sharing.cluster.rows('demand').keys()) this.#unchecked.add(kind)
    }
    const [kind] = this.#newKinds.size > 0 ? this.#newKinds : this.#unchecked
    if (kind === undefined) return undefined
    this.#newKinds.delete(kind)
    this.#unchecked.delete(kind)
    return kind
  }

  async #claims(kind: string, slice: TimeSlice): Promise<boolean> {
    const { demands, onError } = this.#sharing
    try {
      const taskKind = demands.find(kind)
      return taskKind !== undefined && (await this.#shouldClaim(taskKind, slice))
    } catch (error) {
      // An unreadable row must not stop the claims of other kinds.
      onError(error)
      return false
    }
  }

  async #shouldClaim(taskKind: TaskKind, slice: TimeSlice): Promise<boolean> {
    const { servers, ownNodes, otherNodes, settings } = this.#sharing
    const couldDo = (nodeId: string): boolean => {
      const held = ownNodes.get(nodeId)
      return held !== undefined && !held.isGone && settings.couldDo(taskKind, nodeId, held.doc)
    }
    if (await this.#findNode(this.#own, taskKind, () => ownNodes.ids(), couldDo, slice)) return true
    if (!servers.isFirst) return false
    const couldOther = (nodeId: string) => otherNodes.couldDo(taskKind, nodeId)
    return !(await this.#findNode(this.#others, taskKind, () => otherNodes.ids(), couldOther, slice))
  }

  async #findNode(
    found: Map<string, string>,
    { kind }: TaskKind,
    ids: () => Iterable<string>,
    couldDo: (nodeId: string) => boolean,
    slice: TimeSlice,
  ): Promise<boolean> {
    const known = found.get(kind)
    if (known !== undefined && couldDo(known)) return true
    found.delete(kind)
    for (const nodeId of ids()) {
      if (couldDo(nodeId)) {
        found.set(kind, nodeId)
        return true
      }
      if (slice.isOver) await slice.pause()
    }
    return false
  }
}
