/**
 * The delayed adds of a queue, at most one per key. Each costs a Map entry, a slot in the heap and its payload;
 * a priority is kept only where there is one, and keys only where they differ from the items.
 */
import { TimerHeap } from './timerheap.ts'

/** A delayed add that fell due or was used up. */
export interface DueAdd<T> {
  readonly key: unknown
  readonly item: T
  readonly priority: number
}

export class Waiting<T> {
  readonly #heap = new TimerHeap()
  readonly #slots = new Map<unknown, number>()
  readonly #priorities = new Map<number, number>()
  #items: (T | undefined)[] = []
  /** The same array as `#items` when an item is its own key. */
  #keys: unknown[]

  constructor(itemsAreKeys: boolean) {
    this.#keys = itemsAreKeys ? this.#items : []
  }

  get size(): number {
    return this.#heap.size
  }

  get nextDueAt(): number {
    return this.#heap.nextDueAt
  }

  dueAt(key: unknown): number | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : this.#heap.dueAt(slot)
  }

  priorityOf(key: unknown): number | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : this.#priorityAt(slot)
  }

  /** Enters a delayed add, or merges it with the one of that key. False: there was one. */
  set(key: unknown, item: T, dueAt: number, priority: number, replace: boolean): boolean {
    const known = this.#slots.get(key)
    if (known === undefined) {
      const slot = this.#heap.add(dueAt)
      this.#slots.set(key, slot)
      this.#keys[slot] = key
      this.#items[slot] = item
      if (priority !== 0) this.#priorities.set(slot, priority)
      return true
    }
    this.#items[known] = item
    if (priority > this.#priorityAt(known)) this.#priorities.set(known, priority)
    if (replace || dueAt < this.#heap.dueAt(known)) this.#heap.move(known, dueAt)
    return false
  }

  /** Gives the delayed add of a key a newer payload, if there is one. */
  renew(key: unknown, item: T): void {
    const slot = this.#slots.get(key)
    if (slot !== undefined) this.#items[slot] = item
  }

  /** Takes out the delayed add of a key. */
  take(key: unknown): DueAdd<T> | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : this.#takeSlot(slot)
  }

  /** Takes out the one that falls due first; only while `size > 0`. */
  takeNext(): DueAdd<T> {
    return this.#takeSlot(this.#heap.nextSlot)
  }

  clear(): void {
    while (this.size > 0) this.takeNext()
  }

  #priorityAt(slot: number): number {
    return this.#priorities.get(slot) ?? 0
  }

  #takeSlot(slot: number): DueAdd<T> {
    const taken = { key: this.#keys[slot], item: this.#items[slot] as T, priority: this.#priorityAt(slot) }
    this.#heap.release(slot)
    this.#slots.delete(taken.key)
    if (this.#priorities.size > 0) this.#priorities.delete(slot)
    this.#keys[slot] = undefined
    this.#items[slot] = undefined
    if (this.#heap.sparse) this.#compact()
    return taken
  }

  /** Memory follows a burst down again. */
  #compact(): void {
    const [items, keys] = [this.#items, this.#keys]
    const priorities = new Map(this.#priorities)
    this.#items = []
    this.#keys = keys === items ? this.#items : []
    this.#priorities.clear()
    this.#heap.compact((oldSlot, slot) => {
      this.#keys[slot] = keys[oldSlot]
      this.#items[slot] = items[oldSlot]
      this.#slots.set(keys[oldSlot], slot)
      const priority = priorities.get(oldSlot)
      if (priority !== undefined) this.#priorities.set(slot, priority)
    })
  }
}
