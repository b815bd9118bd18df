/**
 * Due times by seat, earliest first, equal ones in the order in which they were set.
 *
 * A 4-ary heap over typed arrays: sifting touches no object, and a million timers are four flat blocks.
 */
import { sortByTime, type Timers, timersFor } from './sort-by-time.ts'

const smallest = 16
const none = 0xffff_ffff
/** At so many places it is looked how many are due; from one in sixteen on, it pays to take them all at once. */
const sampleSize = 64
const enoughDue = 4

export class TimerHeap {
  #size = 0
  #lastOrder = 0
  /** By place in the heap: when, and whose. */
  #dueAt = new Float64Array(smallest)
  #seatAt = new Uint32Array(smallest)
  /** By seat: its place in the heap, and by which call it was set, which is asked among equals only and so not moved. */
  #placeOf = new Uint32Array(smallest).fill(none)
  #orderOf = new Float64Array(smallest)

  get size(): number {
    return this.#size
  }

  /** The earliest due time; Infinity when nothing waits. */
  get nextDueAt(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#dueAt[0] as number)
  }

  /** Who falls due first; only while `size > 0`. */
  get nextSeat(): number {
    return this.#seatAt[0] as number
  }

  /** Some seat that waits, the cheapest to take out; only while `size > 0`. */
  get lastSeat(): number {
    return this.#seatAt[this.#size - 1] as number
  }

  /** All seats that wait are below this number. */
  get seatCount(): number {
    return this.#placeOf.length
  }

  has(seat: number): boolean {
    return seat < this.#placeOf.length && this.#placeOf[seat] !== none
  }

  dueAt(seat: number): number {
    return this.#dueAt[this.#placeOf[seat] as number] as number
  }

  /** Sets a seat's due time, anew or for the first time; among equals it is now the last. */
  set(seat: number, dueAt: number): void {
    if (seat >= this.#placeOf.length) this.#growSeats(seat)
    this.#orderOf[seat] = ++this.#lastOrder
    const place = this.#placeOf[seat] as number
    if (place !== none) {
      this.#sift(place, dueAt, seat)
      return
    }
    if (this.#size === this.#dueAt.length) this.#resize(this.#size * 2)
    this.#siftUp(this.#size++, dueAt, seat)
  }

  remove(seat: number): void {
    const place = this.#placeOf[seat] as number
    const last = --this.#size
    this.#placeOf[seat] = none
    if (place < last) this.#sift(place, this.#dueAt[last] as number, this.#seatAt[last] as number)
    // Memory follows a burst down again; what stands by seat does so when seats are numbered anew, or none is left.
    if (this.#dueAt.length > smallest && last * 8 <= this.#dueAt.length) this.#resize(this.#dueAt.length / 4)
  }

  /** Whether so many seem to be due by a time that it is quicker to take them all than one after the other. */
  areManyDue(by: number): boolean {
    const step = Math.floor(this.#size / sampleSize)
    if (step === 0) return false
    let dueCount = 0
    for (let place = 0; place < this.#size; place += step)
      if ((this.#dueAt[place] as number) <= by) dueCount++
    return dueCount >= enoughDue
  }

  /** Takes out all that are due by a time, in order. */
  takeDue(by: number): Timers {
    let dueCount = 0
    for (let place = 0; place < this.#size; place++) if ((this.#dueAt[place] as number) <= by) dueCount++
    const due = timersFor(dueCount)
    let taken = 0
    let kept = 0
    for (let place = 0; place < this.#size; place++) {
      const dueAt = this.#dueAt[place] as number
      const seat = this.#seatAt[place] as number
      if (dueAt > by) this.#put(kept++, dueAt, seat)
      else {
        this.#placeOf[seat] = none
        due.dueAt[taken] = dueAt
        due.seats[taken++] = seat
      }
    }
    this.#size = kept
    this.#restore()
    return sortByTime(due, this.#orderOf)
  }

  /** The seats were numbered anew. */
  renumber(newSeats: Uint32Array): void {
    const orderOf = this.#orderOf
    this.clear()
    for (let place = 0; place < this.#size; place++) {
      const oldSeat = this.#seatAt[place] as number
      const seat = newSeats[oldSeat] as number
      if (seat >= this.#placeOf.length) this.#growSeats(seat)
      this.#seatAt[place] = seat
      this.#placeOf[seat] = place
      this.#orderOf[seat] = orderOf[oldSeat] as number
    }
  }

  /** Forgets what stands by seat; only while nothing waits. */
  clear(): void {
    this.#placeOf = new Uint32Array(smallest).fill(none)
    this.#orderOf = new Float64Array(smallest)
  }

  /** Makes a heap of what lies in any order. */
  #restore(): void {
    let capacity = smallest
    while (capacity < this.#size) capacity *= 2
    if (capacity < this.#dueAt.length) this.#resize(capacity)
    for (let place = (this.#size - 2) >> 2; place >= 0; place--) {
      this.#siftDown(place, this.#dueAt[place] as number, this.#seatAt[place] as number)
    }
  }

  #sift(place: number, dueAt: number, seat: number): void {
    if (place > 0 && this.#isBefore(dueAt, seat, (place - 1) >> 2)) this.#siftUp(place, dueAt, seat)
    else this.#siftDown(place, dueAt, seat)
  }

  #siftUp(from: number, dueAt: number, seat: number): void {
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 2
      if (!this.#isBefore(dueAt, seat, parent)) break
      this.#move(parent, place)
      place = parent
    }
    this.#put(place, dueAt, seat)
  }

  #siftDown(from: number, dueAt: number, seat: number): void {
    let place = from
    for (let child = place * 4 + 1; child < this.#size; child = place * 4 + 1) {
      const first = this.#firstOfFour(child)
      if (this.#isBefore(dueAt, seat, first)) break
      this.#move(first, place)
      place = first
    }
    this.#put(place, dueAt, seat)
  }

  #firstOfFour(child: number): number {
    const dues = this.#dueAt
    const end = Math.min(child + 4, this.#size)
    let first = child
    let firstDueAt = dues[child] as number
    for (let other = child + 1; other < end; other++) {
      const dueAt = dues[other] as number
      if (dueAt > firstDueAt) continue
      if (dueAt === firstDueAt && this.#order(other) > this.#order(first)) continue
      first = other
      firstDueAt = dueAt
    }
    return first
  }

  /** Whether a seat with this due time comes before the one at a place. */
  #isBefore(dueAt: number, seat: number, place: number): boolean {
    const other = this.#dueAt[place] as number
    return dueAt < other || (dueAt === other && (this.#orderOf[seat] as number) < this.#order(place))
  }

  #order(place: number): number {
    return this.#orderOf[this.#seatAt[place] as number] as number
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#dueAt[from] as number, this.#seatAt[from] as number)
  }

  #put(place: number, dueAt: number, seat: number): void {
    this.#dueAt[place] = dueAt
    this.#seatAt[place] = seat
    this.#placeOf[seat] = place
  }

  #resize(capacity: number): void {
    this.#dueAt = resized(this.#dueAt, new Float64Array(capacity))
    this.#seatAt = resized(this.#seatAt, new Uint32Array(capacity))
  }

  #growSeats(seat: number): void {
    let capacity = this.#placeOf.length
    while (capacity <= seat) capacity *= 2
    this.#placeOf = resized(this.#placeOf, new Uint32Array(capacity).fill(none))
    this.#orderOf = resized(this.#orderOf, new Float64Array(capacity))
  }
}

function resized<A extends Float64Array | Uint32Array>(from: A, to: A): A {
  to.set(from.subarray(0, to.length))
  return to
}
