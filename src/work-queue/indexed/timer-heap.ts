/**
 * Due times by key index, earliest first, equal ones in the order in which they were set.
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
  #indexAt = new Uint32Array(smallest)
  /** By key index: its place in the heap, and by which call it was set, which is asked among equals only and so not moved. */
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
  get nextIndex(): number {
    return this.#indexAt[0] as number
  }

  /** Some key index that waits, the cheapest to take out; only while `size > 0`. */
  get lastIndex(): number {
    return this.#indexAt[this.#size - 1] as number
  }

  /** All key indexes that wait are below this number. */
  get indexCount(): number {
    return this.#placeOf.length
  }

  has(index: number): boolean {
    return index < this.#placeOf.length && this.#placeOf[index] !== none
  }

  dueAt(index: number): number {
    return this.#dueAt[this.#placeOf[index] as number] as number
  }

  /** Sets a key index's due time, anew or for the first time; among equals it is now the last. */
  set(index: number, dueAt: number): void {
    if (index >= this.#placeOf.length) this.#growIndexes(index)
    this.#orderOf[index] = ++this.#lastOrder
    const place = this.#placeOf[index] as number
    if (place !== none) {
      this.#sift(place, dueAt, index)
      return
    }
    if (this.#size === this.#dueAt.length) this.#resize(this.#size * 2)
    this.#siftUp(this.#size++, dueAt, index)
  }

  remove(index: number): void {
    const place = this.#placeOf[index] as number
    const last = --this.#size
    this.#placeOf[index] = none
    if (place < last) this.#sift(place, this.#dueAt[last] as number, this.#indexAt[last] as number)
    // Memory follows a burst down again; what stands by key index does so when key indexes are renumbered, or none is left.
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
      const index = this.#indexAt[place] as number
      if (dueAt > by) this.#put(kept++, dueAt, index)
      else {
        this.#placeOf[index] = none
        due.dueAt[taken] = dueAt
        due.indexes[taken++] = index
      }
    }
    this.#size = kept
    this.#restore()
    return sortByTime(due, this.#orderOf)
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    const orderOf = this.#orderOf
    this.clear()
    for (let place = 0; place < this.#size; place++) {
      const oldIndex = this.#indexAt[place] as number
      const index = newIndexes[oldIndex] as number
      if (index >= this.#placeOf.length) this.#growIndexes(index)
      this.#indexAt[place] = index
      this.#placeOf[index] = place
      this.#orderOf[index] = orderOf[oldIndex] as number
    }
  }

  /** Forgets what stands by key index; only while nothing waits. */
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
      this.#siftDown(place, this.#dueAt[place] as number, this.#indexAt[place] as number)
    }
  }

  #sift(place: number, dueAt: number, index: number): void {
    if (place > 0 && this.#isBefore(dueAt, index, (place - 1) >> 2)) this.#siftUp(place, dueAt, index)
    else this.#siftDown(place, dueAt, index)
  }

  #siftUp(from: number, dueAt: number, index: number): void {
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 2
      if (!this.#isBefore(dueAt, index, parent)) break
      this.#move(parent, place)
      place = parent
    }
    this.#put(place, dueAt, index)
  }

  #siftDown(from: number, dueAt: number, index: number): void {
    let place = from
    for (let child = place * 4 + 1; child < this.#size; child = place * 4 + 1) {
      const first = this.#firstOfFour(child)
      if (this.#isBefore(dueAt, index, first)) break
      this.#move(first, place)
      place = first
    }
    this.#put(place, dueAt, index)
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

  /** Whether a key index with this due time comes before the one at a place. */
  #isBefore(dueAt: number, index: number, place: number): boolean {
    const other = this.#dueAt[place] as number
    return dueAt < other || (dueAt === other && (this.#orderOf[index] as number) < this.#order(place))
  }

  #order(place: number): number {
    return this.#orderOf[this.#indexAt[place] as number] as number
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#dueAt[from] as number, this.#indexAt[from] as number)
  }

  #put(place: number, dueAt: number, index: number): void {
    this.#dueAt[place] = dueAt
    this.#indexAt[place] = index
    this.#placeOf[index] = place
  }

  #resize(capacity: number): void {
    this.#dueAt = resized(this.#dueAt, new Float64Array(capacity))
    this.#indexAt = resized(this.#indexAt, new Uint32Array(capacity))
  }

  #growIndexes(index: number): void {
    let capacity = this.#placeOf.length
    while (capacity <= index) capacity *= 2
    this.#placeOf = resized(this.#placeOf, new Uint32Array(capacity).fill(none))
    this.#orderOf = resized(this.#orderOf, new Float64Array(capacity))
  }
}

function resized<A extends Float64Array | Uint32Array>(from: A, to: A): A {
  to.set(from.subarray(0, to.length))
  return to
}
