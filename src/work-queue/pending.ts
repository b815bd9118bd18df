/**
 * What is queued, by key index, in two forms. A queue without priorities and without a store of the caller's keeps a list of
 * key indexes, which needs no object per item. A queue that has a store, or that hears of a priority, keeps turns in a store.
 */
import { extend, renumber } from './key-indexes.ts'
import { FifoQueue, type Queue } from './queue-stores.ts'
import { Turn } from './turn.ts'

export interface Pending<T> {
  readonly size: number
  has(index: number): boolean
  /** Enters a key index that is not queued. */
  push(turn: Turn<T>): void
  /** Renews the item of a queued key index, and raises its priority if this one is higher. */
  touch(index: number, item: T, priority: number): void
  /** Takes the next; only while `size > 0`. */
  pop(): Turn<T>
  /** The same, able to keep priorities other than 0. */
  ranked(): Pending<T>
  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void
  /** Gives memory back; only while nothing is queued. */
  clear(): void
}

const smallest = 16

/**
 * First in, first out: by key index there are the item and the key index behind it. A million queued items are then two
 * flat arrays, where a million turns would be copied by the garbage collector. The turn is made when its item is taken.
 *
 * It knows no priorities. A queue that gets one moves to `StoredTurns`, once, and stays there.
 */
export class IndexList<T> implements Pending<T> {
  #size = 0
  /** Both ends of the list; without meaning while it is empty. */
  #firstIndex = 0
  #lastIndex = 0
  /** By key index: the item that is queued there. */
  #items: (T | undefined)[] = []
  /** By key index: the key index behind it plus one, for the last its own plus one, and 0 where nothing is queued. */
  #behind = new Uint32Array(smallest)

  get size(): number {
    return this.#size
  }

  has(index: number): boolean {
    return index < this.#behind.length && this.#behind[index] !== 0
  }

  push({ index, item }: Turn<T>): void {
    this.#enter(index, item)
  }

  touch(index: number, item: T): void {
    this.#items[index] = item
  }

  pop(): Turn<T> {
    const index = this.#firstIndex
    const item = this.#items[index] as T
    this.#items[index] = undefined
    this.#firstIndex = (this.#behind[index] as number) - 1
    this.#behind[index] = 0
    this.#size--
    return new Turn(index, item, 0)
  }

  ranked(): Pending<T> {
    const turns = new StoredTurns<T>(new FifoQueue())
    while (this.size > 0) turns.push(this.pop())
    return turns
  }

  renumber(newIndexes: Uint32Array): void {
    const items = this.#items
    const behind = this.#behind
    let index = this.#firstIndex
    let left = this.#size
    this.clear()
    for (; left > 0; left--) {
      this.#enter(newIndexes[index] as number, items[index] as T)
      index = (behind[index] as number) - 1
    }
  }

  clear(): void {
    this.#size = 0
    this.#items = []
    this.#behind = new Uint32Array(smallest)
  }

  #enter(index: number, item: T): void {
    if (index >= this.#behind.length) this.#grow(index * 2)
    extend(this.#items, index)
    this.#items[index] = item
    if (this.#size++ === 0) this.#firstIndex = index
    else this.#behind[this.#lastIndex] = index + 1
    this.#behind[index] = index + 1
    this.#lastIndex = index
  }

  #grow(length: number): void {
    const grown = new Uint32Array(length)
    grown.set(this.#behind)
    this.#behind = grown
  }
}

/** Turns in a store, which may be the caller's. When the store throws, everything is as it was. */
export class StoredTurns<T> implements Pending<T> {
  readonly #store: Queue<T>
  /** By key index: what the store has. */
  #turns: (Turn<T> | undefined)[] = []

  constructor(store: Queue<T>) {
    this.#store = store
  }

  get size(): number {
    return this.#store.size
  }

  has(index: number): boolean {
    return this.#turns[index] !== undefined
  }

  push(turn: Turn<T>): void {
    // Recorded first, so that a store which calls the queue finds it there.
    extend(this.#turns, turn.index)
    this.#turns[turn.index] = turn
    try {
      this.#store.push(turn)
    } catch (error) {
      this.#turns[turn.index] = undefined
      throw error
    }
  }

  touch(index: number, item: T, priority: number): void {
    const turn = this.#turns[index] as Turn<T>
    const { item: previousItem, priority: previousPriority } = turn
    turn.item = item
    if (priority > previousPriority) turn.priority = priority
    try {
      this.#store.touch(turn, previousPriority)
    } catch (error) {
      turn.item = previousItem
      turn.priority = previousPriority
      throw error
    }
  }

  pop(): Turn<T> {
    const turn = this.#store.pop() as Turn<T>
    this.#turns[turn.index] = undefined
    return turn
  }

  ranked(): Pending<T> {
    return this
  }

  renumber(newIndexes: Uint32Array): void {
    for (const turn of this.#turns) if (turn !== undefined) turn.index = newIndexes[turn.index] as number
    this.#turns = renumber(this.#turns, newIndexes)
  }

  clear(): void {
    this.#turns = []
  }
}
