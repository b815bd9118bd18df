import type { KindTraits, Meter, Ticket } from '../core/meter.ts'
import { type Kinds, noteHold, noteWait } from './kinds.ts'
import type { Slowest } from './slowest.ts'
import { holding, type Tickets, waiting } from './tickets.ts'
import type { Matrix } from './wait-matrix.ts'

/**
 * Waits and holds, as they are told: some tenths of a microsecond each, nothing allocated, nothing thrown. Whoever tells
 * something that makes no sense (a ticket that was given back, an end before a beginning) changes nothing.
 */
export class Recorder implements Meter {
  readonly #kinds: Kinds
  readonly #tickets: Tickets
  readonly #matrix: Matrix
  readonly #slowest: Slowest
  readonly #now: () => number

  constructor(parts: RecorderParts) {
    this.#kinds = parts.kinds
    this.#tickets = parts.tickets
    this.#matrix = parts.matrix
    this.#slowest = parts.slowest
    this.#now = parts.now
  }

  kind(name: string, traits?: KindTraits): number {
    return this.#kinds.of(name, traits)
  }

  begin(kind: number, what?: string): Ticket {
    const { lane, id } = this.#kinds.get(kind)
    const ticket = this.#tickets.take(id, this.#now(), what)
    if (lane !== undefined && ticket !== 0 && ++lane.waiting > lane.peakWaiting)
      lane.peakWaiting = lane.waiting
    return ticket
  }

  enter(ticket: Ticket): void {
    const index = this.#tickets.find(ticket, waiting)
    if (index < 0) return
    const now = this.#now()
    const kind = this.#kinds.get(this.#tickets.kindAt(index))
    const begunAt = this.#tickets.begunAt(index)
    if (kind.lane !== undefined) {
      kind.lane.waiting--
      kind.lane.holding++
    }
    this.#tickets.enter(index, kind.lane, now)
    noteWait(kind, now - begunAt)
    if (now - begunAt > longWaitMs) this.#matrix.waited(kind.id, begunAt, now, 0, this.#tickets.whatAt(index))
  }

  leave(ticket: Ticket): void {
    let index = this.#tickets.find(ticket, holding)
    if (index < 0) {
      index = this.#tickets.find(ticket, waiting)
      if (index >= 0) this.#drop(index)
      return
    }
    const now = this.#now()
    const kind = this.#kinds.get(this.#tickets.kindAt(index))
    const enteredAt = this.#tickets.enteredAt(index)
    const waitMs = enteredAt - this.#tickets.begunAt(index)
    if (kind.lane !== undefined) kind.lane.holding--
    noteHold(kind, enteredAt, now)
    this.#slowest.note(kind.id, this.#tickets.whatAt(index), waitMs, now - enteredAt, now)
    this.#tickets.giveBack(index, kind.lane)
  }

  turn(kind: number, begunAt: number, enteredAt: number, leftAt: number, what?: string): void {
    this.waitedOn(kind, begunAt, enteredAt, leftAt, 0, what)
  }

  /** The same, with the kind to charge when no other kind ran. */
  waitedOn(
    id: number,
    begunAt: number,
    enteredAt: number,
    leftAt: number,
    fallback: number,
    what: string | undefined,
  ): void {
    if (!(begunAt <= enteredAt && enteredAt <= leftAt)) return
    const kind = this.#kinds.get(id)
    noteWait(kind, enteredAt - begunAt)
    noteHold(kind, enteredAt, leftAt)
    if (enteredAt - begunAt > longWaitMs) this.#matrix.waited(kind.id, begunAt, enteredAt, fallback, what)
    this.#slowest.note(kind.id, what, enteredAt - begunAt, leftAt - enteredAt, leftAt)
  }

  depth(lane: string, depth: number): void {
    const known = this.#kinds.lane(lane)
    if (known === undefined) return
    known.waiting = depth
    if (depth > known.peakWaiting) known.peakWaiting = depth
  }

  /** It left the line without a turn, perhaps because it had waited too long: those in its way are charged all the same. */
  #drop(index: number): void {
    const now = this.#now()
    const kind = this.#kinds.get(this.#tickets.kindAt(index))
    const begunAt = this.#tickets.begunAt(index)
    const what = this.#tickets.whatAt(index)
    if (kind.lane !== undefined) kind.lane.waiting--
    noteWait(kind, now - begunAt)
    if (now - begunAt > longWaitMs) this.#matrix.waited(kind.id, begunAt, now, 0, what)
    this.#slowest.note(kind.id, what, now - begunAt, 0, now)
    this.#tickets.giveBack(index, undefined)
  }
}

export interface RecorderParts {
  readonly kinds: Kinds
  readonly tickets: Tickets
  readonly matrix: Matrix
  readonly slowest: Slowest
  now(): number
}

/** Shorter waits are counted, but not attributed to a holder. */
export const longWaitMs = 1
