/**
 * The delayed adds of a queue, one per key index at most. Each costs its position in the heap and its payload; a priority is
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
  get nextIndex(): number {
    // Among equals those in the run come first: all that stand in the heap fall due later or were set later.
    return this.#due.size > 0 && this.#due.nextDueAt <= this.#heap.nextDueAt
      ? this.#due.nextIndex
      : this.#heap.nextIndex
  }

  /** Some key index that waits, the cheapest to take out; only while `size > 0`. */
  get lastIndex(): number {
    return this.#due.size > 0 ? this.#due.nextIndex : this.#heap.lastIndex
  }

  has(index: number): boolean {
    return (this.#heap.size > 0 && this.#heap.has(index)) || this.#due.has(index)
  }

  dueAt(index: number): number {
    return this.#due.has(index) ? this.#due.dueAt(index) : this.#heap.dueAt(index)
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
    this.#set(index, dueAt)
  }

  /** Merges a further one: the newest payload, the highest priority, the earliest time unless it is replaced. */
  merge(index: number, item: T, dueAt: number, priority: number, replace: boolean): void {
    this.renew(index, item)
    if (priority > this.priority(index)) this.#priorities.set(index, priority)
    if (replace || dueAt < this.dueAt(index)) this.#set(index, dueAt)
  }

  renew(index: number, item: T): void {
    this.#items[index] = item
  }

  /** Sets those apart that are due, if they are many: each is then taken at less cost, and waits here until it is. */
  gather(now: number): void {
    if (this.#due.size > 0 || !this.#heap.areManyDue(now)) return
    this.#due.fill(this.#heap.takeDue(now), this.#heap.indexCount)
  }

  remove(index: number): void {
    if (!this.#due.remove(index)) this.#heap.remove(index)
    if (this.#priorities.size > 0) this.#priorities.delete(index)
    this.#items[index] = undefined
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    this.#heap.renumber(newIndexes)
    this.#due.renumber(newIndexes)
    this.#items = renumber(this.#items, newIndexes)
    const priorities = [...this.#priorities]
    this.#priorities = new Map(priorities.map(([index, priority]) => [newIndexes[index] as number, priority]))
  }

  /**
   * Gives memory back; only while nothing waits. Not done whenever that is so: one that waits now and then among a
   * million that are queued would have all that stands by key index made anew each time.
   */
  clear(): void {
    if (this.#items.length === 0) return
    this.#items = []
    this.#heap.clear()
  }

  #set(index: number, dueAt: number): void {
    // Whatever is set goes to the heap: the run holds but what stood there when it was gathered.
    this.#due.remove(index)
    this.#heap.set(index, dueAt)
  }
}
