import type { Ticket } from '../core/meter.ts'
import type { Lane } from './kinds.ts'

/**
 * All waits and holds under way, in typed arrays of a fixed size. A ticket is an index and how often that
 * index was given out: a ticket that is used twice, or too late, is invalid. 0 is the ticket when no index was free.
 */
export class Tickets {
  readonly #kinds: Uint16Array
  readonly #states: Uint8Array
  readonly #rounds: Uint16Array
  readonly #begunAt: Float64Array
  readonly #enteredAt: Float64Array
  readonly #whats: (string | undefined)[]
  /** While it waits to be given: the next free index. While its turn is: its neighbours in its lane. */
  readonly #next: Int32Array
  readonly #previous: Int32Array
  #free = 0
  /** Tickets refused because no index was free. */
  overflow = 0

  constructor(size: number = maxTickets) {
    this.#kinds = new Uint16Array(size)
    this.#states = new Uint8Array(size)
    this.#rounds = new Uint16Array(size)
    this.#begunAt = new Float64Array(size)
    this.#enteredAt = new Float64Array(size)
    this.#whats = new Array<string | undefined>(size).fill(undefined)
    this.#next = Int32Array.from({ length: size }, (_, index) => (index + 1 < size ? index + 1 : -1))
    this.#previous = new Int32Array(size).fill(-1)
  }

  take(kind: number, begunAt: number, what: string | undefined): Ticket {
    const index = this.#free
    if (index < 0) {
      this.overflow++
      return 0
    }
    this.#free = this.#next[index]!
    this.#kinds[index] = kind
    this.#states[index] = waiting
    this.#begunAt[index] = begunAt
    this.#whats[index] = what
    return (this.#rounds[index]! << indexBits) + index + 1
  }

  /** The index of a ticket in this state; -1 when it is not in it. */
  find(ticket: Ticket, state: number): number {
    const index = (ticket & indexMask) - 1
    if (index < 0 || this.#states[index] !== state) return -1
    return ticket >>> indexBits === this.#rounds[index]! ? index : -1
  }

  kindAt(index: number): number {
    return this.#kinds[index]!
  }

  begunAt(index: number): number {
    return this.#begunAt[index]!
  }

  enteredAt(index: number): number {
    return this.#enteredAt[index]!
  }

  whatAt(index: number): string | undefined {
    return this.#whats[index]
  }

  enter(index: number, lane: Lane | undefined, now: number): void {
    this.#states[index] = holding
    this.#enteredAt[index] = now
    if (lane === undefined) return
    this.#next[index] = lane.open
    this.#previous[index] = -1
    if (lane.open >= 0) this.#previous[lane.open] = index
    lane.open = index
  }

  giveBack(index: number, lane: Lane | undefined): void {
    if (lane !== undefined && this.#states[index] === holding) {
      const next = this.#next[index]!
      const previous = this.#previous[index]!
      if (next >= 0) this.#previous[next] = previous
      if (previous >= 0) this.#next[previous] = next
      else lane.open = next
    }
    this.#states[index] = 0
    this.#whats[index] = undefined
    this.#rounds[index] = (this.#rounds[index]! + 1) & roundMask
    this.#next[index] = this.#free
    this.#free = index
  }

  /** Those whose turn in the lane is not over. */
  eachOpen(lane: Lane, visit: (kind: number, enteredAt: number) => void): void {
    for (let index = lane.open; index >= 0; index = this.#next[index]!) {
      visit(this.#kinds[index]!, this.#enteredAt[index]!)
    }
  }
}

export const waiting = 1
export const holding = 2

const indexBits = 14
const indexMask = (1 << indexBits) - 1
/** A ticket stays a small integer. */
const roundMask = 0xffff
/** One less than the indexes that have a number, because ticket 0 means none. */
const maxTickets = (1 << 14) - 1
