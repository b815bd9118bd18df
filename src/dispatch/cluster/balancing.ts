/**
 * Which waiting tasks go to other servers. Tasks that wait here for lack of free slots, while nodes of other servers
 * have some, go back to the store without spending an attempt, and this server leaves their kind to the others for a
 * moment. As many go as fit there, or the others' fair part of a long wait queue, so that both queues end at about the
 * same time.
 */

import { slotsFor, type TaskKind } from '../matching/demand.ts'
import type { WaitingKind } from '../registry/serve-waiting.ts'
import { Stretch } from '../time-limits.ts'
import type { Capacity } from './other-nodes.ts'
import type { Sharing } from './server-sharing.ts'

/** How long a yielded kind is left to other servers, unless there is capacity here. */
const restMs = 1_000
/** The same kind is not yielded again before the other servers have written what they took. */
const againMs = 500
/**
 * The pause after a look, in multiples of its length: with many demands and nodes, looking must not take all the
 * time.
 */
const breathTimes = 9

/** How many of the tasks that wait here go to other servers with this capacity. */
export function shareOf(waiting: number, there: Pick<Capacity, 'free' | 'size'>, sizeHere: number): number {
  if (there.free <= 0) return 0
  const fairly = Math.floor((waiting * there.size) / (there.size + sizeHere))
  return Math.min(waiting, Math.max(there.free, fairly))
}

/** Yields tasks that other servers have free slots for. */
export class Balancing {
  readonly #sharing: Sharing
  readonly #yieldedAt = new Map<string, number>()
  #notBefore = Number.NEGATIVE_INFINITY
  #isLooking = false

  constructor(sharing: Sharing) {
    this.#sharing = sharing
  }

  /** Looks once; one look at a time. */
  async look(): Promise<void> {
    const { monotonicMs } = this.#sharing
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
    const { registry, demands, kinds, monotonicMs, onTrouble } = this.#sharing
    for (const [kind, at] of this.#yieldedAt) if (monotonicMs() - at > againMs) this.#yieldedAt.delete(kind)
    const waitingKinds = new Map<string, WaitingKind>()
    for (const waitingKind of registry.waitingKinds()) waitingKinds.set(waitingKind.kind, waitingKind)
    for (const kind of kinds.resting) {
      const taskKind = waitingKinds.has(kind) ? undefined : demands.find(kind)
      if (taskKind !== undefined && (await this.#hasCapacity(taskKind, stretch))) kinds.wake(kind)
    }
    for (const waitingKind of waitingKinds.values()) {
      try {
        if (!waitingKind.hasCapacity && waitingKind.waiting > 0) await this.#yield(waitingKind, stretch)
      } catch (error) {
        // A kind that cannot be read must not stop the others.
        onTrouble(error)
      }
      if (stretch.isOver) await stretch.pause()
    }
  }

  async #yield({ kind, waiting, asked }: WaitingKind, stretch: Stretch): Promise<void> {
    const { demands, otherNodes, kinds, mailbox, monotonicMs } = this.#sharing
    if (this.#yieldedAt.has(kind)) return
    if (!demands.canBeFound(kind)) {
      // No server would claim it yet: write its row first.
      demands.learn({ kind, ...asked })
      return
    }
    const taskKind = { kind, ...asked }
    const there = await otherNodes.capacity(taskKind, waiting, stretch)
    if (there.free === 0) return
    const count = shareOf(waiting, there, await this.#sizeHere(taskKind, stretch))
    if (count === 0 || !mailbox.post({ kind: 'yield', demand: kind, count })) return
    kinds.rest(kind, restMs)
    this.#yieldedAt.set(kind, monotonicMs())
  }

  /** How many tasks of this kind the nodes of this server can run at once. */
  async #sizeHere(taskKind: TaskKind, stretch: Stretch): Promise<number> {
    const { ownNodes, settings } = this.#sharing
    let size = 0
    for (const { nodeId, doc, isGone } of ownNodes.values()) {
      if (!isGone && settings.couldDo(taskKind, nodeId, doc)) size += slotsFor(taskKind.uses, doc.services)
      if (stretch.isOver) await stretch.pause()
    }
    return size
  }

  async #hasCapacity(taskKind: TaskKind, stretch: Stretch): Promise<boolean> {
    const { registry, ownNodes, settings, now } = this.#sharing
    for (const node of registry.nodes()) {
      const { nodeId, status, draining, cordoned, overloaded, heldFor } = node
      const held = ownNodes.get(nodeId)
      const isOpen = status === 'ready' && !(draining || cordoned || overloaded) && heldFor === null
      if (isOpen && held !== undefined && settings.couldDo(taskKind, nodeId, held.doc)) {
        const left = node.services.map((service) => {
          const takes = !service.cordoned && (service.restsUntil ?? 0) <= now()
          return { name: service.name, slots: takes ? service.slots - service.used : 0 }
        })
        if (slotsFor(taskKind.uses, left) > 0) return true
      }
      if (stretch.isOver) await stretch.pause()
    }
    return false
  }
}
