/**
 * First in, first out, without an object for what is queued: the line is one of seats, and the items stand by seat. A
 * million queued items are then three flat arrays, where a million turns would be copied about by the collector; the
 * turn is made when its item is taken, and dies young.
 *
 * It knows no priorities. Most queues never hear of one; one that does moves to a store of turns, once, and stays there.
 */

import { extend } from './byseat.ts'
import { type Pending, StoredTurns } from './pending.ts'
import { Ring } from './ring.ts'
import { SeatFlags } from './seatflags.ts'
import { FifoQueue } from './stores.ts'
import { Turn } from './turn.ts'

export class SeatLine<T> implements Pending<T> {
  /** The seats that are queued, and their items, which are taken in the same order. */
  readonly #line = new Ring<number>()
  readonly #items = new Ring<T>()
  /** How many were taken since the line was last empty. */
  #takenCount = 0
  readonly #isQueued = new SeatFlags()
  /** By seat: how many were before it when the line was last empty, which stays true however many are taken. */
  #places: (number | undefined)[] = []

  get size(): number {
    return this.#line.size
  }

  has(seat: number): boolean {
    return this.#isQueued.has(seat)
  }

  push({ seat, item }: Turn<T>): void {
    extend(this.#places, seat)
    this.#places[seat] = this.#takenCount + this.size
    this.#isQueued.raise(seat)
    this.#line.push(seat)
    this.#items.push(item)
  }

  touch(seat: number, item: T): void {
    this.#items.replace((this.#places[seat] as number) - this.#takenCount, item)
  }

  pop(): Turn<T> {
    const seat = this.#line.shift()
    this.#isQueued.lower(seat)
    this.#takenCount = this.size === 0 ? 0 : this.#takenCount + 1
    return new Turn(seat, this.#items.shift(), 0)
  }

  ranked(): Pending<T> {
    const turns = new StoredTurns<T>(new FifoQueue())
    while (this.size > 0) turns.push(this.pop())
    return turns
  }

  renumber(newSeats: Uint32Array): void {
    this.#isQueued.renumber(newSeats)
    // Made anew from the line: a seat that was given up still has the place it had last.
    this.#places = []
    for (let before = 0; before < this.size; before++) {
      const seat = newSeats[this.#line.shift()] as number
      this.#line.push(seat)
      extend(this.#places, seat)
      this.#places[seat] = this.#takenCount + before
    }
  }

  clear(): void {
    this.#isQueued.clear()
    this.#places = []
  }
}
