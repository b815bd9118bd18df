/**
 * Which tasks this server claims. Alone: all. Else those that a node of its own could do, those that nobody's node could
 * do if it is the first of the servers (somebody must hold them, and see to their deadlines), and those for anybody.
 *
 * What was found is kept: a wish that a node could do is looked at through that node first, and one that none could do
 * is not looked at again before something changed.
 */

import { anyKind } from '../matching/demand-kind.ts'
import type { Suitability, Wish } from '../matching/suitability.ts'
import { Stretch } from '../tasks/stretch.ts'
import type { ClusterDemands } from './cluster-demands.ts'
import type { ClusterSettings } from './cluster-settings.ts'
import type { ClusterState } from './cluster-state.ts'
import type { OwnNodes } from './own-nodes.ts'
import type { ServerList } from './server-list.ts'
import type { SharedFleet } from './shared-fleet.ts'

/** What the choice is made from. */
export interface ClaimKindsParts {
  readonly cluster: ClusterState
  readonly demands: ClusterDemands
  readonly ownNodes: OwnNodes
  readonly fleet: SharedFleet
  readonly servers: ServerList
  readonly settings: ClusterSettings
  readonly suitability: Suitability
  readonly monotonicMs: () => number
  /** There may be more to claim than before. */
  readonly wake: () => void
  readonly onTrouble: (error: unknown) => void
}

/** One asking of the store. */
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
/** A net under all: now and then the first server takes a few of whatever is there, also those that other servers could do. */
const net = { everyMs: 10_000, limit: 10 } as const

interface Found {
  nodeId: string | null
  /** When null was found. */
  generation: number
}

/** The kinds to claim. */
export class ClaimKinds {
  readonly #parts: ClaimKindsParts
  readonly #own = new Map<string, Found>()
  readonly #others = new Map<string, Found>()
  /** Kinds that were yielded just now, and until when they are left to others. */
  readonly #resting = new Map<string, number>()
  /** Wishes that just came: they are looked at before all others. */
  readonly #fresh = new Set<string>()
  #able: Set<string> = new Set([anyKind])
  /** What has been found by a look at everything that is under way. */
  #found: Set<string> | null = null
  #generation = 0
  #isStale = false
  #isLooking = false
  #netAt: number

  constructor(parts: ClaimKindsParts) {
    this.#parts = parts
    this.#netAt = parts.monotonicMs()
    parts.cluster.onChange(({ kind, key, row }) => {
      if (kind === 'pool') parts.suitability.forget()
      if (kind === 'demand') this.#heard(key, row !== undefined)
      else if (kind !== 'server') this.changed()
    })
  }

  /** What to ask the store for now. */
  asks(): readonly ClaimAsk[] {
    const { servers, monotonicMs } = this.#parts
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

  /** Another whenever nodes, their owners, or what operators decided may be. */
  get generation(): number {
    return this.#generation
  }

  get resting(): readonly string[] {
    return [...this.#resting.keys()]
  }

  /** Leaves a kind to others for a while. */
  rest(kind: string, forMs: number): void {
    this.#resting.set(kind, this.#parts.monotonicMs() + forMs)
  }

  /** There is capacity for it after all. */
  wake(kind: string): void {
    if (this.#resting.delete(kind)) this.#parts.wake()
  }

  /** Something changed on which the choice depends. */
  changed(): void {
    this.#generation += 1
    this.#isStale = true
    this.#lookSoon()
  }

  /** A new wish finds its nodes without any other being looked at again. */
  #heard(kind: string, isThere: boolean): void {
    if (isThere) {
      if (this.#able.has(kind)) return
      this.#fresh.add(kind)
      this.#lookSoon()
      return
    }
    for (const each of [this.#fresh, this.#own, this.#others, this.#able, this.#found]) each?.delete(kind)
  }

  #lookSoon(): void {
    if (this.#isLooking) return
    this.#isLooking = true
    setImmediate(() => {
      this.#look().catch((error: unknown) => {
        this.#isLooking = false
        this.#parts.onTrouble(error)
      })
    })
  }

  #awake(now: number): readonly string[] {
    for (const [kind, until] of this.#resting) if (until <= now) this.#resting.delete(kind)
    return [...this.#able].filter((kind) => !this.#resting.has(kind))
  }

  async #look(): Promise<void> {
    const { cluster, servers, wake } = this.#parts
    const stretch = new Stretch()
    await this.#lookAtFresh(stretch)
    while (this.#isStale && servers.others.length > 0) {
      this.#isStale = false
      const found = new Set([anyKind])
      this.#found = found
      for (const kind of cluster.rows('demand').keys()) {
        if (await this.#claims(kind, stretch)) found.add(kind)
        if (stretch.isOver) await stretch.pause()
        if (this.#fresh.size > 0) await this.#lookAtFresh(stretch)
      }
      const before = this.#able
      this.#able = found
      this.#found = null
      for (const kind of found) {
        if (before.has(kind)) continue
        wake()
        break
      }
      await stretch.pause()
    }
    this.#isLooking = false
    if (this.#fresh.size > 0) this.#lookSoon()
  }

  async #lookAtFresh(stretch: Stretch): Promise<void> {
    for (const kind of this.#fresh) {
      this.#fresh.delete(kind)
      // Alone it claims all there is; when others come everything is looked at.
      if (this.#parts.servers.others.length === 0) continue
      if (!(await this.#claims(kind, stretch))) continue
      this.#able.add(kind)
      this.#found?.add(kind)
      this.#parts.wake()
    }
  }

  async #claims(kind: string, stretch: Stretch): Promise<boolean> {
    const { demands, onTrouble } = this.#parts
    try {
      const wish = demands.wish(kind)
      return wish !== undefined && (await this.#isMine(wish, stretch))
    } catch (error) {
      // A wish that cannot be read must not keep the others from being claimed.
      onTrouble(error)
      return false
    }
  }

  async #isMine(wish: Wish, stretch: Stretch): Promise<boolean> {
    const { servers, ownNodes, fleet, settings, suitability } = this.#parts
    const couldDo = (nodeId: string): boolean => {
      const held = ownNodes.get(nodeId)
      if (held === undefined || held.isGone) return false
      return settings.isOpen(nodeId, held.doc.epoch, wish.uses) && suitability.couldDo(wish, held)
    }
    if (await this.#some(this.#own, wish, () => ownNodes.ids(), couldDo, stretch)) return true
    if (!servers.isFirst) return false
    const couldOther = (nodeId: string) => fleet.couldDo(wish, nodeId)
    return !(await this.#some(this.#others, wish, () => fleet.ids(), couldOther, stretch))
  }

  async #some(
    found: Map<string, Found>,
    { kind }: Wish,
    ids: () => Iterable<string>,
    couldDo: (nodeId: string) => boolean,
    stretch: Stretch,
  ): Promise<boolean> {
    const generation = this.#generation
    const known = found.get(kind)
    if (known !== undefined) {
      if (known.nodeId === null && known.generation === generation) return false
      if (known.nodeId !== null && couldDo(known.nodeId)) return true
    }
    for (const nodeId of ids()) {
      if (couldDo(nodeId)) {
        found.set(kind, { nodeId, generation })
        return true
      }
      if (stretch.isOver) await stretch.pause()
    }
    found.set(kind, { nodeId: null, generation })
    return false
  }
}
