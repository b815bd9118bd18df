/**
 * The delayed adds of a queue, one per seat at most. Each costs its place in the heap and its payload; a priority is
 * kept only where there is one.
 */
import { extend, renumber } from './by-index.ts'
import { DueRun } from './due-run.ts'
import { TimerHeap } from './timer-heap.ts'

export class Waiting<T> {
  readonly #heap = new TimerHeap()
  /** What a firing found due, if it was much, until each is taken. */
  readonly #due = new DueRun()
  #items: (T | undefined)[] = []
  #priorities = new Map<number, number>()

  get size(): number {
    return this.#heap.size + this.#due.size
  }

  /** The earliest due time; Infinity when nothing waits. */
  get nextDueAt(): number {
    return Math.min(this.#due.nextDueAt, this.#heap.nextDueAt)
  }

  /** Who falls due first; only while `size > 0`. */
  get nextSeat(): number {
    // Among equals those in the run come first: all that stand in the heap fall due later or were set later.
    return this.#due.size > 0 && this.#due.nextDueAt <= this.#heap.nextDueAt
      ? this.#due.nextSeat
      : this.#heap.nextSeat
  }

  /** Some seat that waits, the cheapest to take out; only while `size > 0`. */
  get lastSeat(): number {
    return this.#due.size > 0 ? this.#due.nextSeat : this.#heap.lastSeat
  }

  has(seat: number): boolean {
    return (this.#heap.size > 0 && this.#heap.has(seat)) || this.#due.has(seat)
  }

  dueAt(seat: number): number {
    return this.#due.has(seat) ? this.#due.dueAt(seat) : this.#heap.dueAt(seat)
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
    this.#set(seat, dueAt)
  }

  /** Merges a further one: the newest payload, the highest priority, the earliest time unless it is replaced. */
  merge(seat: number, item: T, dueAt: number, priority: number, replace: boolean): void {
    this.renew(seat, item)
    if (priority > this.priority(seat)) this.#priorities.set(seat, priority)
    if (replace || dueAt < this.dueAt(seat)) this.#set(seat, dueAt)
  }

  renew(seat: number, item: T): void {
    this.#items[seat] = item
  }

  /** Sets those apart that are due, if they are many: each is then taken at less cost, and waits here until it is. */
  gather(now: number): void {
    if (this.#due.size > 0 || !this.#heap.areManyDue(now)) return
    this.#due.fill(this.#heap.takeDue(now), this.#heap.seatCount)
  }

  remove(seat: number): void {
    if (!this.#due.remove(seat)) this.#heap.remove(seat)
    if (this.#priorities.size > 0) this.#priorities.delete(seat)
    this.#items[seat] = undefined
  }

  /** The seats were numbered anew. */
  renumber(newSeats: Uint32Array): void {
    this.#heap.renumber(newSeats)
    this.#due.renumber(newSeats)
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

  #set(seat: number, dueAt: number): void {
    // Whatever is set goes to the heap: the run holds but what stood there when it was gathered.
    this.#due.remove(seat)
    this.#heap.set(seat, dueAt)
  }
}
