import { extend, renumber } from './key-indexes.ts'

/**
 * Due times by key index, earliest first, equal ones in the order in which they were set.
 *
 * A 4-ary heap over typed arrays: sifting touches no object, and a million timers are four flat blocks.
 */
const smallest = 16
const none = 0xffff_ffff

export class TimerHeap {
  #size = 0
  #lastOrder = 0
  /** By position in the heap: when, and which key index. */
  #dueAt = new Float64Array(smallest)
  #indexAt = new Uint32Array(smallest)
  /** By key index: its position in the heap, and by which call it was set, which decides among equal times. */
  #positionOf = new Uint32Array(smallest).fill(none)
  #orderOf = new Float64Array(smallest)

  get size(): number {
    return this.#size
  }

  /** The earliest due time; Infinity when nothing waits. */
  get nextDueAt(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#dueAt[0] as number)
  }

  /** The key index that falls due first; only while `size > 0`. */
  get nextIndex(): number {
    return this.#indexAt[0] as number
  }

  /** The key index that is cheapest to remove; only while `size > 0`. */
  get lastIndex(): number {
    return this.#indexAt[this.#size - 1] as number
  }

  has(index: number): boolean {
    return index < this.#positionOf.length && this.#positionOf[index] !== none
  }

  dueAt(index: number): number {
    return this.#dueAt[this.#positionOf[index] as number] as number
  }

  /** Sets a key index's due time, anew or for the first time; among equals it is now the last. */
  set(index: number, dueAt: number): void {
    if (index >= this.#positionOf.length) this.#growIndexes(index)
    this.#orderOf[index] = ++this.#lastOrder
    const position = this.#positionOf[index] as number
    if (position !== none) {
      this.#sift(position, dueAt, index)
      return
    }
    if (this.#size === this.#dueAt.length) this.#resize(this.#size * 2)
    this.#siftUp(this.#size++, dueAt, index)
  }

  remove(index: number): void {
    const position = this.#positionOf[index] as number
    const last = --this.#size
    this.#positionOf[index] = none
    if (position < last) this.#sift(position, this.#dueAt[last] as number, this.#indexAt[last] as number)
    // Memory follows a burst down again. The arrays by key index shrink when key indexes are renumbered.
    if (this.#dueAt.length > smallest && last * 8 <= this.#dueAt.length) this.#resize(this.#dueAt.length / 4)
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    const orderOf = this.#orderOf
    this.clear()
    for (let position = 0; position < this.#size; position++) {
      const oldIndex = this.#indexAt[position] as number
      const index = newIndexes[oldIndex] as number
      if (index >= this.#positionOf.length) this.#growIndexes(index)
      this.#indexAt[position] = index
      this.#positionOf[index] = position
      this.#orderOf[index] = orderOf[oldIndex] as number
    }
  }

  /** Forgets the arrays by key index; only while nothing waits. */
  clear(): void {
    this.#positionOf = new Uint32Array(smallest).fill(none)
    this.#orderOf = new Float64Array(smallest)
  }

  #sift(position: number, dueAt: number, index: number): void {
    if (position > 0 && this.#isBefore(dueAt, index, (position - 1) >> 2))
      this.#siftUp(position, dueAt, index)
    else this.#siftDown(position, dueAt, index)
  }

  #siftUp(from: number, dueAt: number, index: number): void {
    let position = from
    while (position > 0) {
      const parent = (position - 1) >> 2
      if (!this.#isBefore(dueAt, index, parent)) break
      this.#move(parent, position)
      position = parent
    }
    this.#put(position, dueAt, index)
  }

  #siftDown(from: number, dueAt: number, index: number): void {
    let position = from
    for (let child = position * 4 + 1; child < this.#size; child = position * 4 + 1) {
      const first = this.#firstOfFour(child)
      if (this.#isBefore(dueAt, index, first)) break
      this.#move(first, position)
      position = first
    }
    this.#put(position, dueAt, index)
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

  /** Whether a key index with this due time comes before the one at a position. */
  #isBefore(dueAt: number, index: number, position: number): boolean {
    const other = this.#dueAt[position] as number
    return dueAt < other || (dueAt === other && (this.#orderOf[index] as number) < this.#order(position))
  }

  #order(position: number): number {
    return this.#orderOf[this.#indexAt[position] as number] as number
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#dueAt[from] as number, this.#indexAt[from] as number)
  }

  #put(position: number, dueAt: number, index: number): void {
    this.#dueAt[position] = dueAt
    this.#indexAt[position] = index
    this.#positionOf[index] = position
  }

  #resize(capacity: number): void {
    this.#dueAt = resized(this.#dueAt, new Float64Array(capacity))
    this.#indexAt = resized(this.#indexAt, new Uint32Array(capacity))
  }

  #growIndexes(index: number): void {
    let capacity = this.#positionOf.length
    while (capacity <= index) capacity *= 2
    this.#positionOf = resized(this.#positionOf, new Uint32Array(capacity).fill(none))
    this.#orderOf = resized(this.#orderOf, new Float64Array(capacity))
  }
}

function resized<A extends Float64Array | Uint32Array>(from: A, to: A): A {
  to.set(from.subarray(0, to.length))
  return to
}

/** The delayed adds of a queue, at most one per key index. Each costs its position in the heap and its item. */

export class DelayedItems<T> {
  readonly #heap = new TimerHeap()
  #items: (T | undefined)[] = []
  /** By key index, where it is not 0. */
  #priorities = new Map<number, number>()

  get size(): number {
    return this.#heap.size
  }

  /** The earliest due time; Infinity when nothing waits. */
  get nextDueAt(): number {
    return this.#heap.nextDueAt
  }

  /** The key index that falls due first; only while `size > 0`. */
  get nextIndex(): number {
    return this.#heap.nextIndex
  }

  /** The key index that is cheapest to remove; only while `size > 0`. */
  get lastIndex(): number {
    return this.#heap.lastIndex
  }

  has(index: number): boolean {
    return this.#heap.size > 0 && this.#heap.has(index)
  }

  dueAt(index: number): number {
    return this.#heap.dueAt(index)
  }

  item(index: number): T {
    return this.#items[index] as T
  }

  priority(index: number): number {
    return this.#priorities.size === 0 ? 0 : (this.#priorities.get(index) ?? 0)
  }

  /** Enters the first delayed add of a key index. */
  add(index: number, item: T, dueAt: number, priority: number): void {
    extend(this.#items, index)
    this.#items[index] = item
    if (priority !== 0) this.#priorities.set(index, priority)
    this.#heap.set(index, dueAt)
  }

  /** Merges a further one: the newest payload, the highest priority, the earliest time unless it is replaced. */
  merge(index: number, item: T, dueAt: number, priority: number, replace: boolean): void {
    this.renew(index, item)
    if (priority > this.priority(index)) this.#priorities.set(index, priority)
    if (replace || dueAt < this.dueAt(index)) this.#heap.set(index, dueAt)
  }

  renew(index: number, item: T): void {
    this.#items[index] = item
  }

  remove(index: number): void {
    this.#heap.remove(index)
    if (this.#priorities.size > 0) this.#priorities.delete(index)
    this.#items[index] = undefined
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    this.#heap.renumber(newIndexes)
    this.#items = renumber(this.#items, newIndexes)
    const priorities = [...this.#priorities]
    this.#priorities = new Map(priorities.map(([index, priority]) => [newIndexes[index] as number, priority]))
  }

  /**
   * Gives memory back; only while nothing waits. The queue calls it when it is idle, and not whenever nothing waits: a
   * delayed add now and then among a million queued items would make all arrays anew each time.
   */
  clear(): void {
    if (this.#items.length === 0) return
    this.#items = []
    this.#heap.clear()
  }
}
