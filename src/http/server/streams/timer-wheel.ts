import { type Clock, systemClock } from '../../../core/clock.ts'

/**
 * One timer for any number of members, each of which is visited once a period. A new member gets the next of the wheel's
 * slots, so that many who come at once are spread over the whole period:
 *
 *     slots   [ a e ] [ b ] [ c ] [ d ]
 *                       ▲ visited now, the others in their turn
 *
 * The timer runs only while the wheel has members.
 */
export interface Wheel<Thing> extends Iterable<Thing> {
  /** Puts it on; its first visit comes within a period. Answers its slot, by which it is taken off again. */
  add(thing: Thing): number
  delete(thing: Thing, slot: number): void
  readonly size: number
}

/** How a wheel turns. */
export interface WheelOptions<Thing> {
  readonly periodMs: number
  /** Must not throw. It may take things off, or put them on. */
  readonly visit: (thing: Thing) => void
  readonly clock?: Clock
}

/** About so long is each slot's share of the period. */
const slotMs = 250

export function createWheel<Thing>(options: WheelOptions<Thing>): Wheel<Thing> {
  return new TimerWheel(options)
}

class TimerWheel<Thing> implements Wheel<Thing> {
  readonly #visit: (thing: Thing) => void
  readonly #clock: Clock
  readonly #slots: readonly Set<Thing>[]
  readonly #turnMs: number
  #size = 0
  /** The slot that is visited next, and the one that takes the next newcomer. */
  #next = 0
  #newcomers = 0
  #timer: unknown

  constructor({ periodMs, visit, clock = systemClock }: WheelOptions<Thing>) {
    const count = Math.max(1, Math.round(periodMs / slotMs))
    this.#visit = visit
    this.#clock = clock
    this.#slots = Array.from({ length: count }, () => new Set<Thing>())
    this.#turnMs = periodMs / count
  }

  get size(): number {
    return this.#size
  }

  add(thing: Thing): number {
    const slot = this.#newcomers
    this.#newcomers = (slot + 1) % this.#slots.length
    this.#slots[slot]!.add(thing)
    if (this.#size++ === 0) this.#arm()
    return slot
  }

  delete(thing: Thing, slot: number): void {
    if (!this.#slots[slot]!.delete(thing)) return
    if (--this.#size === 0) this.#clock.clearTimeout(this.#timer)
  }

  *[Symbol.iterator](): Iterator<Thing> {
    for (const slot of this.#slots) yield* [...slot]
  }

  #arm(): void {
    this.#timer = this.#clock.setTimeout(() => this.#turn(), this.#turnMs)
    // Who is on the wheel has a socket, and that keeps the process alive; the timer need not.
    ;(this.#timer as { unref?(): void }).unref?.()
  }

  #turn(): void {
    this.#arm()
    const slot = this.#slots[this.#next]!
    this.#next = (this.#next + 1) % this.#slots.length
    // A copy: a set also visits what is added on the way.
    for (const thing of [...slot]) this.#visit(thing)
  }
}
