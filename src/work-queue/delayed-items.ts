/** The delayed adds of a queue, at most one per key index. Each costs its position in the heap and its item. */
import { extend, renumber } from './key-indexes.ts'
import { TimerHeap } from './timer-heap.ts'

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
