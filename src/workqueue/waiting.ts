/**
 * The delayed adds of a queue, one per seat at most. Each costs its place in the heap and its payload; a priority is
 * kept only where there is one.
 */
import { extend, renumber } from './byseat.ts'
import { TimerHeap } from './timerheap.ts'

export class Waiting<T> {
  readonly #heap = new TimerHeap()
  #items: (T | undefined)[] = []
  #priorities = new Map<number, number>()

  get size(): number {
    return this.#heap.size
  }

  /** The earliest due time; Infinity when nothing waits. */
  get nextDueAt(): number {
    return this.#heap.nextDueAt
  }

  /** Who falls due first; only while `size > 0`. */
  get nextSeat(): number {
    return this.#heap.nextSeat
  }

  /** Some seat that waits, the cheapest to take out; only while `size > 0`. */
  get lastSeat(): number {
    return this.#heap.lastSeat
  }

  has(seat: number): boolean {
    return this.#heap.has(seat)
  }

  dueAt(seat: number): number {
    return this.#heap.dueAt(seat)
  }

  item(seat: number): T {
    return this.#items[seat] as T
  }

  priority(seat: number): number {
    return this.#priorities.size === 0 ? 0 : (this.#priorities.get(seat) ?? 0)
  }

  /** Enters the first delayed add of a seat. */
  add(seat: number, item: T, dueAt: number, priority: number): void {
    extend(this.#items, seat)
    this.#items[seat] = item
    if (priority !== 0) this.#priorities.set(seat, priority)
    this.#heap.set(seat, dueAt)
  }

  /** Merges a further one: the newest payload, the highest priority, the earliest time unless it is replaced. */
  merge(seat: number, item: T, dueAt: number, priority: number, replace: boolean): void {
    this.renew(seat, item)
    if (priority > this.priority(seat)) this.#priorities.set(seat, priority)
    if (replace || dueAt < this.#heap.dueAt(seat)) this.#heap.set(seat, dueAt)
  }

  renew(seat: number, item: T): void {
    this.#items[seat] = item
  }

  remove(seat: number): void {
    this.#heap.remove(seat)
    if (this.#priorities.size > 0) this.#priorities.delete(seat)
    this.#items[seat] = undefined
  }

  /** The seats were numbered anew. */
  renumber(newSeats: Uint32Array): void {
    this.#heap.renumber(newSeats)
    this.#items = renumber(this.#items, newSeats)
    const priorities = [...this.#priorities]
    this.#priorities = new Map(priorities.map(([seat, priority]) => [newSeats[seat] as number, priority]))
  }

  /**
   * Gives memory back; only while nothing waits. Not done whenever that is so: one that waits now and then among a
   * million that are queued would have all that stands by seat made anew each time.
   */
  clear(): void {
    if (this.#items.length === 0) return
    this.#items = []
    this.#heap.clear()
  }
}
