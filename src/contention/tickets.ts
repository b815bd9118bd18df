import type { Ticket } from '../core/meter.ts'
import type { Lane } from './kinds.ts'

/**
 * Everybody who stands in a line or has a turn, in typed arrays of a fixed size. A ticket is a place and how often that
 * place was given: one that is used twice, or after its time, is nobody's. 0 is the ticket of those for whom there was no place.
 */
export class Tickets {
  readonly #kinds: Uint16Array
  readonly #states: Uint8Array
  readonly #rounds: Uint16Array
  readonly #begunAt: Float64Array
  readonly #enteredAt: Float64Array
  readonly #whats: (string | undefined)[]
  /** While it waits to be given: the next free place. While its turn is: its neighbours in its lane. */
  readonly #next: Int32Array
  readonly #previous: Int32Array
  #free = 0
  /** Those for whom there was no place. */
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
    const place = this.#free
    if (place < 0) {
      this.overflow++
      return 0
    }
    this.#free = this.#next[place]!
    this.#kinds[place] = kind
    this.#states[place] = waiting
    this.#begunAt[place] = begunAt
    this.#whats[place] = what
    return (this.#rounds[place]! << placeBits) + place + 1
  }

  /** The place of a ticket in this state; -1 when it is not in it. */
  find(ticket: Ticket, state: number): number {
    const place = (ticket & placeMask) - 1
    if (place < 0 || this.#states[place] !== state) return -1
    return ticket >>> placeBits === this.#rounds[place]! ? place : -1
  }

  kindAt(place: number): number {
    return this.#kinds[place]!
  }

  begunAt(place: number): number {
    return this.#begunAt[place]!
  }

  enteredAt(place: number): number {
    return this.#enteredAt[place]!
  }

  whatAt(place: number): string | undefined {
    return this.#whats[place]
  }

  enter(place: number, lane: Lane | undefined, now: number): void {
    this.#states[place] = holding
    this.#enteredAt[place] = now
    if (lane === undefined) return
    this.#next[place] = lane.open
    this.#previous[place] = -1
    if (lane.open >= 0) this.#previous[lane.open] = place
    lane.open = place
  }

  giveBack(place: number, lane: Lane | undefined): void {
    if (lane !== undefined && this.#states[place] === holding) {
      const next = this.#next[place]!
      const previous = this.#previous[place]!
      if (next >= 0) this.#previous[next] = previous
      if (previous >= 0) this.#next[previous] = next
      else lane.open = next
    }
    this.#states[place] = 0
    this.#whats[place] = undefined
    this.#rounds[place] = (this.#rounds[place]! + 1) & roundMask
    this.#next[place] = this.#free
    this.#free = place
  }

  /** Those whose turn in the lane is not over. */
  eachOpen(lane: Lane, visit: (kind: number, enteredAt: number) => void): void {
    for (let place = lane.open; place >= 0; place = this.#next[place]!) {
      visit(this.#kinds[place]!, this.#enteredAt[place]!)
    }
  }
}

export const waiting = 1
export const holding = 2

const placeBits = 14
const placeMask = (1 << placeBits) - 1
/** A ticket stays a small integer. */
const roundMask = 0xffff
/** One less than the places that have a number, for 0 is nobody's. */
const maxTickets = (1 << 14) - 1
