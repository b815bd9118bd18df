/**
 * What is queued, by key index: each once at most. Who is next is decided by a store of entries, or, where nobody asks
 * for more than first in first out, by a list of key indexes that needs no object for what is queued; see `IndexList`.
 */

import type { Queue } from '../queue-stores.ts'
import type { Turn } from '../turn.ts'
import { extend, renumber } from './by-index.ts'

/** What a WorkQueue asks of that which is queued. */
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

/** Turns in a store, which may be the caller's own. When it throws, everything is as it was. */
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
