/**
 * First in, first out, without an object for what is queued: by seat stand its item and who comes behind it. A million
 * queued items are then two flat arrays, where a million turns would be copied about by the collector; the turn is made
 * when its item is taken, and dies young.
 *
 * It knows no priorities. Most queues never hear of one; one that does moves to a store of turns, once, and stays there.
 */

import { FifoQueue } from '../queue-stores.ts'
import { Turn } from '../turn.ts'
import { extend } from './by-index.ts'
import { type Pending, StoredTurns } from './pending.ts'

const smallest = 16

export class SeatLine<T> implements Pending<T> {
  #size = 0
  /** Both ends of the line; they say nothing while it is empty. */
  #firstSeat = 0
  #lastSeat = 0
  /** By seat: the item that is queued there. */
  #items: (T | undefined)[] = []
  /** By seat: the seat behind it plus one, for the last its own plus one, and 0 where nothing is queued. */
  #behind = new Uint32Array(smallest)

  get size(): number {
    return this.#size
  }

  has(seat: number): boolean {
    return seat < this.#behind.length && this.#behind[seat] !== 0
  }

  push({ seat, item }: Turn<T>): void {
    this.#enter(seat, item)
  }

  touch(seat: number, item: T): void {
    this.#items[seat] = item
  }

  pop(): Turn<T> {
    const seat = this.#firstSeat
    const item = this.#items[seat] as T
    this.#items[seat] = undefined
    this.#firstSeat = (this.#behind[seat] as number) - 1
    this.#behind[seat] = 0
    this.#size--
    return new Turn(seat, item, 0)
  }

  ranked(): Pending<T> {
    const turns = new StoredTurns<T>(new FifoQueue())
    while (this.size > 0) turns.push(this.pop())
    return turns
  }

  renumber(newSeats: Uint32Array): void {
    const items = this.#items
    const behind = this.#behind
    let seat = this.#firstSeat
    let left = this.#size
    this.clear()
    for (; left > 0; left--) {
      this.#enter(newSeats[seat] as number, items[seat] as T)
      seat = (behind[seat] as number) - 1
    }
  }

  clear(): void {
    this.#size = 0
    this.#items = []
    this.#behind = new Uint32Array(smallest)
  }

  #enter(seat: number, item: T): void {
    if (seat >= this.#behind.length) this.#grow(seat * 2)
    extend(this.#items, seat)
    this.#items[seat] = item
    if (this.#size++ === 0) this.#firstSeat = seat
    else this.#behind[this.#lastSeat] = seat + 1
    this.#behind[seat] = seat + 1
    this.#lastSeat = seat
  }

  #grow(length: number): void {
    const grown = new Uint32Array(length)
    grown.set(this.#behind)
    this.#behind = grown
  }
}
