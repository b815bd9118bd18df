/**
 * Which tasks this server claims. Alone: all. Otherwise those that one of its nodes could do, and those for any server.
 * The first of the servers also claims tasks that no node could do: one server must hold them and end them at their
 * deadlines.
 */

import type { TaskKind } from '../matching/demand.ts'
import { anyKind } from '../tasks/task-document.ts'
import { Stretch } from '../time-limits.ts'
import type { Sharing } from './server-sharing.ts'

/** One claim of tasks. */
export interface ClaimAsk {
  /** Null: any. */
  readonly kinds: readonly string[] | null
  readonly limit: number
  /** What it finds beyond its limit is asked for at once. */
  readonly isWhole: boolean
}

/** Kinds in one claim, and tasks. */
const kindsPerClaim = 200
const claimLimit = 500
/** A safety net: now and then the first server claims a few tasks of any kind. */
const net = { everyMs: 10_000, limit: 10 } as const

/** The kinds to claim. */
export class ClaimKinds {
  readonly #sharing: Sharing
  /** By kind, the node that could do it when it was last judged, here and elsewhere: it is tried first. */
  readonly #own = new Map<string, string>()
  readonly #others = new Map<string, string>()
  /** Kinds that were yielded just now, and until when they are left to others. */
  readonly #resting = new Map<string, number>()
  /** Kinds that just came: they are judged before all others. */
  readonly #fresh = new Set<string>()
  /** Kinds that this round has still to judge. */
  readonly #stale = new Set<string>()
  /** Another round is needed: nodes or settings changed. */
  #isOutdated = false
  #isLooking = false
  readonly #able: Set<string> = new Set([anyKind])
  #netAt: number

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    this.#netAt = sharing.monotonicMs()
    sharing.cluster.onChange(({ kind, key, row }) => {
      if (kind === 'demand') this.#heard(key, row !== undefined)
      else if (kind !== 'server') this.changed()
    })
  }

  /** The claims to make now. */
  asks(): readonly ClaimAsk[] {
    const { servers, monotonicMs } = this.#sharing
    if (servers.others.length === 0) return [{ kinds: null, limit: claimLimit, isWhole: true }]
    const now = monotonicMs()
    const kinds = this.#awake(now)
    const asks: ClaimAsk[] = []
    for (let at = 0; at < kinds.length; at += kindsPerClaim) {
      asks.push({ kinds: kinds.slice(at, at + kindsPerClaim), limit: claimLimit, isWhole: true })
    }
    if (servers.isFirst && now - this.#netAt >= net.everyMs) {
      this.#netAt = now
      asks.push({ kinds: null, limit: net.limit, isWhole: false })
    }
    return asks
  }

  get resting(): readonly string[] {
    return [...this.#resting.keys()]
  }

  /** Leaves a kind to others for a while. */
  rest(kind: string, forMs: number): void {
    this.#resting.set(kind, this.#sharing.monotonicMs() + forMs)
  }

  /** There is capacity for it after all. */
  wake(kind: string): void {
    if (this.#resting.delete(kind)) this.#sharing.wake()
  }

  /** Something changed on which the choice depends: all kinds are judged again. */
  changed(): void {
    this.#isOutdated = true
    this.#lookSoon()
  }

  #heard(kind: string, isThere: boolean): void {
    if (!isThere) {
      for (const each of [this.#fresh, this.#stale, this.#own, this.#others, this.#able]) each.delete(kind)
    } else if (!this.#able.has(kind)) {
      this.#fresh.add(kind)
      this.#lookSoon()
    }
  }

  #lookSoon(): void {
    if (this.#isLooking) return
    this.#isLooking = true
    setImmediate(() => void this.#look())
  }

  #awake(now: number): readonly string[] {
    for (const [kind, until] of this.#resting) if (until <= now) this.#resting.delete(kind)
    return [...this.#able].filter((kind) => !this.#resting.has(kind))
  }

  /** Judges kinds until none is left. Alone, this server claims all there is. */
  async #look(): Promise<void> {
    const { servers, wake } = this.#sharing
    const stretch = new Stretch()
    while (servers.others.length > 0) {
      const kind = this.#next()
      if (kind === undefined) break
      if (!(await this.#claims(kind, stretch))) this.#able.delete(kind)
      else if (!this.#able.has(kind)) {
        this.#able.add(kind)
        wake()
      }
      if (stretch.isOver) await stretch.pause()
    }
    // In the same turn as the last look at what is left: what comes later looks again.
    this.#isLooking = false
  }

  #next(): string | undefined {
    if (this.#stale.size === 0 && this.#isOutdated) {
      this.#isOutdated = false
      for (const kind of this.#sharing.cluster.rows('demand').keys()) this.#stale.add(kind)
    }
    const [kind] = this.#fresh.size > 0 ? this.#fresh : this.#stale
    if (kind === undefined) return undefined
    this.#fresh.delete(kind)
    this.#stale.delete(kind)
    return kind
  }

  async #claims(kind: string, stretch: Stretch): Promise<boolean> {
    const { demands, onTrouble } = this.#sharing
    try {
      const taskKind = demands.find(kind)
      return taskKind !== undefined && (await this.#isMine(taskKind, stretch))
    } catch (error) {
      // A row that cannot be decoded must not keep the other kinds from being claimed.
      onTrouble(error)
      return false
    }
  }

  async #isMine(taskKind: TaskKind, stretch: Stretch): Promise<boolean> {
    const { servers, ownNodes, otherNodes, settings } = this.#sharing
    const couldDo = (nodeId: string): boolean => {
      const held = ownNodes.get(nodeId)
      return held !== undefined && !held.isGone && settings.couldDo(taskKind, nodeId, held.doc)
    }
    if (await this.#some(this.#own, taskKind, () => ownNodes.ids(), couldDo, stretch)) return true
    if (!servers.isFirst) return false
    const couldOther = (nodeId: string) => otherNodes.couldDo(taskKind, nodeId)
    return !(await this.#some(this.#others, taskKind, () => otherNodes.ids(), couldOther, stretch))
  }

  async #some(
    found: Map<string, string>,
    { kind }: TaskKind,
    ids: () => Iterable<string>,
    couldDo: (nodeId: string) => boolean,
    stretch: Stretch,
  ): Promise<boolean> {
    const known = found.get(kind)
    if (known !== undefined && couldDo(known)) return true
    found.delete(kind)
    for (const nodeId of ids()) {
      if (couldDo(nodeId)) {
        found.set(kind, nodeId)
        return true
      }
      if (stretch.isOver) await stretch.pause()
    }
    return false
  }
}
