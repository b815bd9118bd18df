/**
 * Timers that fell due together, in order, taken from the front. A heap puts itself in order after each one that is
 * taken; here that costs a step.
 *
 * Until it is taken each is found by its seat as before: whoever is called in the meantime may ask for it, or take it
 * back, which leaves a gap.
 */
import { type Timers, timersFor } from './sort-by-time.ts'

const gap = 0xffff_ffff
const nothing = timersFor(0)

export class DueRun {
  #dueAt = nothing.dueAt
  #seats = nothing.seats
  /** By seat: a place, which is the seat's own if it is not passed and the seat stands there. */
  #placeOf = nothing.seats
  #first = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The earliest due time; Infinity when nothing is left. */
  get nextDueAt(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#dueAt[this.#first] as number)
  }

  /** Who comes first; only while `size > 0`. */
  get nextSeat(): number {
    return this.#seats[this.#first] as number
  }

  has(seat: number): boolean {
    if (this.#size === 0 || seat >= this.#placeOf.length) return false
    const place = this.#placeOf[seat] as number
    return place >= this.#first && this.#seats[place] === seat
  }

  dueAt(seat: number): number {
    return this.#dueAt[this.#placeOf[seat] as number] as number
  }

  /** Takes on timers that are in order, and whose seats are below a number, in place of what is here. */
  fill({ dueAt, seats }: Timers, seatCount: number): void {
    this.#dueAt = dueAt
    this.#seats = seats
    this.#first = 0
    this.#size = seats.length
    this.#placeOf = new Uint32Array(seatCount)
    for (let place = 0; place < seats.length; place++) this.#placeOf[seats[place] as number] = place
  }

  /** Takes a seat out; false if it is not here. */
  remove(seat: number): boolean {
    if (this.#size === 0) return false
    if (this.#seats[this.#first] === seat) this.#first++
    else if (this.has(seat)) this.#seats[this.#placeOf[seat] as number] = gap
    else return false
    if (--this.#size === 0) this.clear()
    else while (this.#seats[this.#first] === gap) this.#first++
    return true
  }

  /** The seats were numbered anew. */
  renumber(newSeats: Uint32Array): void {
    if (this.#size === 0) return
    const left = timersFor(this.#size)
    let count = 0
    let seatCount = 0
    for (let place = this.#first; count < this.#size; place++) {
      const oldSeat = this.#seats[place] as number
      if (oldSeat === gap) continue
      const seat = newSeats[oldSeat] as number
      left.dueAt[count] = this.#dueAt[place] as number
      left.seats[count++] = seat
      seatCount = Math.max(seatCount, seat + 1)
    }
    this.fill(left, seatCount)
  }

  /** Gives memory back; only while nothing is left. */
  clear(): void {
    this.#dueAt = nothing.dueAt
    this.#seats = nothing.seats
    this.#placeOf = nothing.seats
    this.#first = 0
  }
}
