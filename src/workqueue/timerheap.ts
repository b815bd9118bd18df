/**
 * Due times, earliest first, equal ones in the order in which they were set.
 *
 * A 4-ary heap over typed arrays, so sifting touches no object and a million timers are a few flat blocks. Who
 * waits is known by a slot, a small number that stays the same until it is released or `compact` is called.
 */
const smallest = 16
/** Ends the chain of free slots. */
const none = 0xffff_ffff

export class TimerHeap {
  #size = 0
  #lastOrder = 0
  /** By place in the heap: when, set by which call, and whose. */
  #dueAt = new Float64Array(smallest)
  #order = new Float64Array(smallest)
  #slotAt = new Uint32Array(smallest)
  /** By slot: its place in the heap or, for a free slot, the next free one. */
  #placeOf = new Uint32Array(smallest)
  #slotCount = 0
  #firstFree = none

  get size(): number {
    return this.#size
  }

  /** The earliest due time; Infinity when nothing waits. */
  get nextDueAt(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#dueAt[0] as number)
  }

  /** The slot that falls due first; only while `size > 0`. */
  get nextSlot(): number {
    return this.#slotAt[0] as number
  }

  dueAt(slot: number): number {
    return this.#dueAt[this.#placeOf[slot] as number] as number
  }

  /** Takes a slot for a new due time. */
  add(dueAt: number): number {
    if (this.#size === this.#dueAt.length) this.#resize(this.#size * 2)
    const slot = this.#takeSlot()
    this.#siftUp(this.#size++, dueAt, ++this.#lastOrder, slot)
    return slot
  }

  /** Sets a slot's due time anew; among equals it is now the last. */
  move(slot: number, dueAt: number): void {
    this.#sift(this.#placeOf[slot] as number, dueAt, ++this.#lastOrder, slot)
  }

  /** Gives a slot back. */
  release(slot: number): void {
    const place = this.#placeOf[slot] as number
    const last = --this.#size
    if (place < last) {
      const [dueAt, order] = [this.#dueAt[last] as number, this.#order[last] as number]
      this.#sift(place, dueAt, order, this.#slotAt[last] as number)
    }
    this.#placeOf[slot] = this.#firstFree
    this.#firstFree = slot
  }

  /** Whether so little is in use that `compact` is worth its while. */
  get sparse(): boolean {
    return this.#dueAt.length > smallest && this.#size * 8 <= this.#dueAt.length
  }

  /** Gives back unused room. Slots are numbered anew, and `renumber` is told of each. */
  compact(renumber: (oldSlot: number, slot: number) => void): void {
    for (let place = 0; place < this.#size; place++) {
      renumber(this.#slotAt[place] as number, place)
      this.#slotAt[place] = place
    }
    let capacity = smallest
    while (capacity < this.#size * 2) capacity *= 2
    this.#resize(capacity)
    for (let slot = 0; slot < this.#size; slot++) this.#placeOf[slot] = slot
    this.#slotCount = this.#size
    this.#firstFree = none
  }

  #takeSlot(): number {
    const free = this.#firstFree
    if (free === none) return this.#slotCount++
    this.#firstFree = this.#placeOf[free] as number
    return free
  }

  #sift(place: number, dueAt: number, order: number, slot: number): void {
    if (place > 0 && this.#isBefore(dueAt, order, (place - 1) >> 2)) this.#siftUp(place, dueAt, order, slot)
    else this.#siftDown(place, dueAt, order, slot)
  }

  #siftUp(from: number, dueAt: number, order: number, slot: number): void {
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 2
      if (!this.#isBefore(dueAt, order, parent)) break
      this.#put(
        place,
        this.#dueAt[parent] as number,
        this.#order[parent] as number,
        this.#slotAt[parent] as number,
      )
      place = parent
    }
    this.#put(place, dueAt, order, slot)
  }

  #siftDown(from: number, dueAt: number, order: number, slot: number): void {
    const dues = this.#dueAt
    const orders = this.#order
    let place = from
    for (let child = place * 4 + 1; child < this.#size; child = place * 4 + 1) {
      let first = child
      const end = Math.min(child + 4, this.#size)
      for (let other = child + 1; other < end; other++) {
        if (this.#isBefore(dues[other] as number, orders[other] as number, first)) first = other
      }
      if (this.#isBefore(dueAt, order, first)) break
      this.#put(place, dues[first] as number, orders[first] as number, this.#slotAt[first] as number)
      place = first
    }
    this.#put(place, dueAt, order, slot)
  }

  #isBefore(dueAt: number, order: number, place: number): boolean {
    const other = this.#dueAt[place] as number
    return dueAt < other || (dueAt === other && order < (this.#order[place] as number))
  }

  #put(place: number, dueAt: number, order: number, slot: number): void {
    this.#dueAt[place] = dueAt
    this.#order[place] = order
    this.#slotAt[place] = slot
    this.#placeOf[slot] = place
  }

  #resize(capacity: number): void {
    this.#dueAt = resized(this.#dueAt, new Float64Array(capacity))
    this.#order = resized(this.#order, new Float64Array(capacity))
    this.#slotAt = resized(this.#slotAt, new Uint32Array(capacity))
    this.#placeOf = resized(this.#placeOf, new Uint32Array(capacity))
  }
}

function resized<A extends Float64Array | Uint32Array>(from: A, to: A): A {
  to.set(from.subarray(0, to.length))
  return to
}
