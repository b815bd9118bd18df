/**
 * What is queued, by seat: each seat once at most. Who is next is decided by a store of entries, or, where nobody asks
 * for more than first in first out, by a line of seats that needs no object for what is queued; see `SeatLine`.
 */

import type { Queue } from '../queue-stores.ts'
import type { Turn } from '../turn.ts'
import { extend, renumber } from './by-index.ts'

/** What a WorkQueue asks of that which is queued. */
export interface Pending<T> {
  readonly size: number
  has(seat: number): boolean
  /** Enters a seat that is not queued. */
  push(turn: Turn<T>): void
  /** Renews the item of a queued seat, and raises its priority if this one is higher. */
  touch(seat: number, item: T, priority: number): void
  /** Takes the next; only while `size > 0`. */
  pop(): Turn<T>
  /** The same, able to keep priorities other than 0. */
  ranked(): Pending<T>
  /** The seats were numbered anew. */
  renumber(newSeats: Uint32Array): void
  /** Gives memory back; only while nothing is queued. */
  clear(): void
}

/** Turns in a store, which may be the caller's own. When it throws, everything is as it was. */
export class StoredTurns<T> implements Pending<T> {
  readonly #store: Queue<T>
  /** By seat: what the store has. */
  #turns: (Turn<T> | undefined)[] = []

  constructor(store: Queue<T>) {
    this.#store = store
  }

  get size(): number {
    return this.#store.size
  }

  has(seat: number): boolean {
    return this.#turns[seat] !== undefined
  }

  push(turn: Turn<T>): void {
    // Seated first, so that a store which calls the queue finds it there.
    extend(this.#turns, turn.seat)
    this.#turns[turn.seat] = turn
    try {
      this.#store.push(turn)
    } catch (error) {
      this.#turns[turn.seat] = undefined
      throw error
    }
  }

  touch(seat: number, item: T, priority: number): void {
    const turn = this.#turns[seat] as Turn<T>
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
    this.#turns[turn.seat] = undefined
    return turn
  }

  ranked(): Pending<T> {
    return this
  }

  renumber(newSeats: Uint32Array): void {
    for (const turn of this.#turns) if (turn !== undefined) turn.seat = newSeats[turn.seat] as number
    this.#turns = renumber(this.#turns, newSeats)
  }

  clear(): void {
    this.#turns = []
  }
}
