import type { KindTraits, Meter, Ticket } from '../core/meter.ts'
import { type Kind, type Kinds, noteHold, noteWait, type OpenTurn } from './kinds.ts'
import type { Matrix } from './wait-matrix.ts'

/**
 * Records waits and turns as modules report them. A report takes less than a microsecond and never throws. An invalid
 * report (a used ticket, an end before a beginning) has no effect. Ticket 0 means that too many tickets are open.
 */
export class Recorder implements Meter {
  readonly #parts: RecorderParts
  readonly #open = new Map<Ticket, OpenTurn>()
  #lastTicket = 0
  /** How many tickets were refused because too many were open. */
  overflow = 0

  constructor(parts: RecorderParts) {
    this.#parts = parts
  }

  kind(name: string, traits?: KindTraits): number {
    return this.#parts.kinds.of(name, traits)
  }

  begin(kindId: number, what?: string): Ticket {
    const { kinds, now, maxOpen = 16_384 } = this.#parts
    if (this.#open.size >= maxOpen) {
      this.overflow++
      return 0
    }
    const kind = kinds.get(kindId)
    const { lane } = kind
    this.#open.set(++this.#lastTicket, { kind, begunAt: now(), enteredAt: undefined, what })
    if (lane !== undefined && ++lane.waiting > lane.peakWaiting) lane.peakWaiting = lane.waiting
    return this.#lastTicket
  }

  enter(ticket: Ticket): void {
    const turn = this.#open.get(ticket)
    if (turn === undefined || turn.enteredAt !== undefined) return
    const { kind, begunAt, what } = turn
    const now = this.#parts.now()
    turn.enteredAt = now
    if (kind.lane !== undefined) {
      kind.lane.waiting--
      kind.lane.open.add(turn)
    }
    this.#waited(kind, begunAt, now, what)
  }

  leave(ticket: Ticket): void {
    const turn = this.#open.get(ticket)
    if (turn === undefined) return
    this.#open.delete(ticket)
    const { kind, begunAt, enteredAt, what } = turn
    const now = this.#parts.now()
    if (enteredAt === undefined) {
      // The waiter left without a turn. Its wait counts like any other.
      if (kind.lane !== undefined) kind.lane.waiting--
      this.#waited(kind, begunAt, now, what)
    } else {
      kind.lane?.open.delete(turn)
      noteHold(kind, enteredAt, now)
    }
    const waitEnd = enteredAt ?? now
    this.#parts.slowest.note(kind.id, what, waitEnd - begunAt, now - waitEnd, now)
  }

  turn(id: number, begunAt: number, enteredAt: number, leftAt: number, what?: string): void {
    if (!(begunAt <= enteredAt && enteredAt <= leftAt)) return
    const { kinds, slowest } = this.#parts
    const kind = kinds.get(id)
    this.#waited(kind, begunAt, enteredAt, what)
    noteHold(kind, enteredAt, leftAt)
    slowest.note(kind.id, what, enteredAt - begunAt, leftAt - enteredAt, leftAt)
  }

  depth(lane: string, depth: number): void {
    const known = this.#parts.kinds.lane(lane)
    if (known === undefined) return
    known.waiting = depth
    if (depth > known.peakWaiting) known.peakWaiting = depth
  }

  #waited(kind: Kind, from: number, to: number, what: string | undefined): void {
    noteWait(kind, to - from)
    if (to - from > longWaitMs) this.#parts.matrix.waited(kind.id, from, to, 0, what)
  }
}

export interface RecorderParts {
  readonly kinds: Kinds
  readonly matrix: Matrix
  readonly slowest: Slowest
  /** The most open waits and turns. @default 16_384 */
  readonly maxOpen?: number
  now(): number
}

/** Shorter waits are counted, but not attributed to a holder. */
export const longWaitMs = 1

/**
 * The slowest recent turns: the slowest hundred of this hour and of the hour before. So slow turns at the start do not
 * hide later ones for ever.
 */
export class Slowest {
  readonly #size: number
  #hour: SlowTurn[] = []
  #before: SlowTurn[] = []
  #hourBegan: number
  /** A turn must be longer than this to enter the list. */
  #floorMs = 0

  constructor(size: number, now: number) {
    this.#size = size
    this.#hourBegan = now
  }

  /** Records a turn. For nearly all turns this is one comparison. */
  note(kind: number, what: string | undefined, waitMs: number, holdMs: number, leftAt: number): void {
    if (waitMs + holdMs <= this.#floorMs) return
    const turn = { kind, what: shorten(what), waitMs, holdMs, leftAt }
    if (this.#hour.length < this.#size) this.#hour.push(turn)
    else this.#hour[this.#fastest()] = turn
    if (this.#hour.length === this.#size) this.#floorMs = lengthOf(this.#hour[this.#fastest()]!)
  }

  /** The slowest turns, slowest first. */
  list(now: number): readonly SlowTurn[] {
    this.tick(now)
    return [...this.#hour, ...this.#before]
      .sort((one, other) => lengthOf(other) - lengthOf(one))
      .slice(0, this.#size)
  }

  #fastest(): number {
    let found = 0
    for (let index = 1; index < this.#hour.length; index++) {
      if (lengthOf(this.#hour[index]!) < lengthOf(this.#hour[found]!)) found = index
    }
    return found
  }

  /** Begins a new hour if one is over. Call it regularly, and before reading. */
  tick(now: number): void {
    if (now - this.#hourBegan <= hourMs) return
    this.#before = now - this.#hourBegan > 2 * hourMs ? [] : this.#hour
    this.#hour = []
    this.#hourBegan = now
    this.#floorMs = 0
  }
}

export interface SlowTurn {
  readonly kind: number
  readonly what: string | undefined
  readonly waitMs: number
  readonly holdMs: number
  readonly leftAt: number
}

const hourMs = 3_600_000
const maxWhat = 191

function lengthOf({ waitMs, holdMs }: SlowTurn): number {
  return waitMs + holdMs
}

function shorten(what: string | undefined): string | undefined {
  return what !== undefined && what.length > maxWhat ? what.slice(0, maxWhat).toWellFormed() : what
}
