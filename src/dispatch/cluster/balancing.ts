/**
 * Who yields what. Tasks that wait here for lack of free slots, while nodes of other servers have some, go back to the store
 * without spending an attempt, and this server leaves their kind to the others for a moment. As many go as fit
 * there, or the others' fair part of a long wait queue, so that both queues end at about the same time.
 */

import { type Suitability, slotsFor, type Wish } from '../matching/suitability.ts'
import type { NodeView } from '../node.ts'
import type { Command } from '../registry/command.ts'
import { Stretch } from '../tasks/stretch.ts'
import type { WaitingKind } from '../waiting/yield-waiting.ts'
import type { ClaimKinds } from './claim-kinds.ts'
import type { ClusterDemands } from './cluster-demands.ts'
import type { ClusterSettings } from './cluster-settings.ts'
import type { ClusterState } from './cluster-state.ts'
import type { OwnNodes } from './own-nodes.ts'
import type { Capacity, SharedFleet } from './shared-fleet.ts'

/** What the balance is made of. */
export interface BalancingParts {
  readonly cluster: Pick<ClusterState, 'onChange'>
  readonly fleet: SharedFleet
  readonly demands: ClusterDemands
  readonly ownNodes: OwnNodes
  readonly settings: ClusterSettings
  readonly suitability: Suitability
  readonly kinds: ClaimKinds
  /** What waits here, and whether there is capacity for it. */
  readonly waiting: () => Iterable<WaitingKind>
  readonly nodeViews: () => Iterable<NodeView>
  readonly post: (command: Command) => boolean
  readonly now: () => number
  readonly monotonicMs: () => number
  readonly onTrouble: (error: unknown) => void
}

/** A kind that was yielded is left to others for so long, unless there is capacity here. */
const restMs = 1_000
/** Before the same kind is yielded again, the others have had time to tell what they took. */
const againMs = 500
/** After a look there is none for so many times as long: with many wishes and nodes it is not all that is done. */
const breathTimes = 9

/** Why a look at a kind would find nothing. */
interface Nothing {
  /** Of the generation: no other server could do it. */
  readonly isAble: boolean
  readonly generation: number
  /** Of the news: no other server had free slots. */
  readonly news: number
}

/** How many of those who wait here go, when so much capacity is elsewhere. */
export function shareOf(waiting: number, there: Pick<Capacity, 'free' | 'size'>, sizeHere: number): number {
  if (there.free <= 0) return 0
  const fairly = Math.floor((waiting * there.size) / (there.size + sizeHere))
  return Math.min(waiting, Math.max(there.free, fairly))
}

/** Yields what others have free slots for. */
export class Balancing {
  readonly #parts: BalancingParts
  readonly #yieldedAt = new Map<string, number>()
  /** Kinds that wait here and were looked at in vain. */
  #vain = new Map<string, Nothing>()
  /** How often servers have told of themselves or their nodes. */
  #news = 0
  #notBefore = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(parts: BalancingParts) {
    this.#parts = parts
    parts.cluster.onChange(({ kind }) => {
      if (kind !== 'demand') this.#news += 1
    })
  }

  /** Looks once; one look at a time. */
  async look(): Promise<void> {
    const { monotonicMs } = this.#parts
    if (this.#isLooking || monotonicMs() < this.#notBefore) return
    this.#isLooking = true
    const stretch = new Stretch()
    try {
      await this.#look(stretch)
    } finally {
      this.#isLooking = false
      this.#notBefore = monotonicMs() + stretch.workedMs * breathTimes
    }
  }

  async #look(stretch: Stretch): Promise<void> {
    const { waiting, demands, kinds, monotonicMs, onTrouble } = this.#parts
    for (const [kind, at] of this.#yieldedAt) if (monotonicMs() - at > againMs) this.#yieldedAt.delete(kind)
    const waitingKinds = new Map<string, WaitingKind>()
    for (const waitingKind of waiting()) waitingKinds.set(waitingKind.kind, waitingKind)
    for (const kind of kinds.resting) {
      const wish = waitingKinds.has(kind) ? undefined : demands.wish(kind)
      if (wish !== undefined && (await this.#hasCapacity(wish, stretch))) kinds.wake(kind)
    }
    for (const kind of this.#vain.keys()) if (!waitingKinds.has(kind)) this.#vain.delete(kind)
    for (const waitingKind of waitingKinds.values()) {
      try {
        if (!waitingKind.hasCapacity && waitingKind.waiting > 0) await this.#yield(waitingKind, stretch)
      } catch (error) {
        // What one kind asks for is no reason to leave the others where they are.
        onTrouble(error)
      }
      if (stretch.isOver) await stretch.pause()
    }
  }

  async #yield({ kind, waiting, asked }: WaitingKind, stretch: Stretch): Promise<void> {
    const { demands, fleet, kinds, post, monotonicMs } = this.#parts
    if (this.#yieldedAt.has(kind) || this.#isVain(kind)) return
    if (!demands.canBeFound(kind)) {
      // No server would claim it yet: write its row first.
      demands.learn({ kind, ...asked })
      return
    }
    const [news, { generation }] = [this.#news, kinds]
    const wish = { kind, ...asked }
    const there = await fleet.capacity(wish, waiting, stretch)
    this.#vain.delete(kind)
    if (there.free === 0) {
      this.#vain.set(kind, { isAble: there.isAble, generation, news })
      return
    }
    const count = shareOf(waiting, there, await this.#sizeHere(wish, stretch))
    if (count === 0 || !post({ kind: 'yield', demand: kind, count })) return
    kinds.rest(kind, restMs)
    this.#yieldedAt.set(kind, monotonicMs())
  }

  #isVain(kind: string): boolean {
    const vain = this.#vain.get(kind)
    if (vain === undefined) return false
    return vain.news === this.#news || (!vain.isAble && vain.generation === this.#parts.kinds.generation)
  }

  /** How many tasks of a wish this server's nodes can do at once. */
  async #sizeHere(wish: Wish, stretch: Stretch): Promise<number> {
    const { ownNodes, settings, suitability } = this.#parts
    let size = 0
    for (const held of ownNodes.values()) {
      const isOpen = !held.isGone && settings.isOpen(held.nodeId, held.doc.epoch, wish.uses)
      if (isOpen && suitability.couldDo(wish, held)) size += slotsFor(wish.uses, held.services)
      if (stretch.isOver) await stretch.pause()
    }
    return size
  }

  async #hasCapacity(wish: Wish, stretch: Stretch): Promise<boolean> {
    const { nodeViews, ownNodes, suitability, now } = this.#parts
    for (const node of nodeViews()) {
      const { nodeId, status, draining, cordoned, overloaded, heldFor } = node
      const held = ownNodes.get(nodeId)
      const isOpen = status === 'ready' && !(draining || cordoned || overloaded) && heldFor === null
      if (isOpen && held !== undefined && suitability.couldDo(wish, held)) {
        const left = node.services.map((service) => {
          const takes = !service.cordoned && (service.restsUntil ?? 0) <= now()
          return { name: service.name, slots: takes ? service.slots - service.used : 0 }
        })
        if (slotsFor(wish.uses, left) > 0) return true
      }
      if (stretch.isOver) await stretch.pause()
    }
    return false
  }
}
