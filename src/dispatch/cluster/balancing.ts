/**
 * Decides which waiting tasks go to other servers. If tasks wait here and nodes of other servers have free slots, this
 * server hands tasks back to the store without spending an attempt, and leaves their kind to the others for a moment.
 * It hands back as many as fit there, or the others' fair part of a long wait queue, so that both queues end at about
 * the same time.
 */

import { slotsFor, type TaskKind } from '../matching/demand.ts'
import type { WaitingKind } from '../registry/serve-waiting.ts'
import { TimeSlice } from '../time-limits.ts'
import type { Capacity } from './other-nodes.ts'
import type { Sharing } from './server-sharing.ts'

/** How long a yielded kind is left to other servers, unless this server gets free slots for it. */
const restMs = 1_000
/** A kind is not yielded again before the other servers have reported the tasks that they took. */
const yieldAgainMs = 500
/**
 * The pause after a check, in multiples of the check's length: with many demands and nodes, checks must not take all
 * the time.
 */
const pauseFactor = 9

/** How many of the waiting tasks go to other servers with this capacity. */
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
  #isChecking = false

  constructor(sharing: Sharing) {
    this.#sharing = sharing
  }

  /** Checks all kinds once, unless a check runs or a pause lasts. */
  async check(): Promise<void> {
    const { monotonicMs } = this.#sharing
    if (this.#isChecking || monotonicMs() < this.#notBefore) return
    this.#isChecking = true
    const slice = new TimeSlice()
    try {
      await this.#checkKinds(slice)
    } finally {
      this.#isChecking = false
      this.#notBefore = monotonicMs() + slice.workedMs * pauseFactor
    }
  }

  async #checkKinds(slice: TimeSlice): Promise<void> {
    const { registry, demands, kinds, monotonicMs, onError } = this.#sharing
    for (const [kind, at] of this.#yieldedAt)
      if (monotonicMs() - at > yieldAgainMs) this.#yieldedAt.delete(kind)
    const waitingKinds = new Map<string, WaitingKind>()
    for (const waitingKind of registry.waitingKinds()) waitingKinds.set(waitingKind.kind, waitingKind)
    for (const kind of kinds.resting) {
      const taskKind = waitingKinds.has(kind) ? undefined : demands.find(kind)
      if (taskKind !== undefined && (await this.#hasCapacity(taskKind, slice))) kinds.wake(kind)
    }
    for (const waitingKind of waitingKinds.values()) {
      try {
        if (!waitingKind.hasCapacity && waitingKind.waiting > 0) await this.#yield(waitingKind, slice)
      } catch (error) {
        // An unreadable kind must not stop the others.
        onError(error)
      }
      if (slice.isOver) await slice.pause()
    }
  }

  async #yield({ kind, waiting, asked }: WaitingKind, slice: TimeSlice): Promise<void> {
    const { demands, otherNodes, kinds, mailbox, monotonicMs } = this.#sharing
    if (this.#yieldedAt.has(kind)) return
    if (!demands.canBeFound(kind)) {
      // No server would claim it yet: write its row first.
      demands.learn({ kind, ...asked })
      return
    }
    const taskKind = { kind, ...asked }
    const there = await otherNodes.capacity(taskKind, waiting, slice)
    if (there.free === 0) return
    const count = shareOf(waiting, there, await this.#sizeHere(taskKind, slice))
    if (count === 0 || !mailbox.post({ kind: 'yield', demand: kind, count })) return
    kinds.rest(kind, restMs)
    this.#yieldedAt.set(kind, monotonicMs())
  }

  /** How many tasks of this kind the nodes of this server can run at once. */
  async #sizeHere(taskKind: TaskKind, slice: TimeSlice): Promise<number> {
    const { ownNodes, settings } = this.#sharing
    let size = 0
    for (const { nodeId, doc, isGone } of ownNodes.values()) {
      if (!isGone && settings.couldDo(taskKind, nodeId, doc)) size += slotsFor(taskKind.uses, doc.services)
      if (slice.isOver) await slice.pause()
    }
    return size
  }

  async #hasCapacity(taskKind: TaskKind, slice: TimeSlice): Promise<boolean> {
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
      if (slice.isOver) await slice.pause()
    }
    return false
  }
}
