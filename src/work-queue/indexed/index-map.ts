/**
 * From a key to its seat: a Map, as long as it is small enough for the processor's caches, and beyond that a NameTable
 * for short strings, which then are by far the most keys. Measured with names of 16 characters, in nanoseconds a
 * look-up:
 *
 *                 100    30,000    100,000    1,000,000
 *   Map            15        35         85          430
 *   NameTable      55        55         60          250
 */

import type { SeatFlags } from './index-flags.ts'
import { KeyMap } from './key-map.ts'
import { NameTable } from './name-table.ts'

/** From so many keys on, names are kept in a table; below a quarter of it no longer. */
const manyKeys = 65_536
/** Beyond, it costs more to compute a hash than the table saves. */
const shortLength = 32

export class SeatMap {
  readonly #many: number
  readonly #map = new KeyMap<number>()
  /** Once there are many keys: those that are short strings, which then are not in `#map`. */
  #names: NameTable | undefined

  constructor(many: number = manyKeys) {
    this.#many = many
  }

  get size(): number {
    return this.#map.size + (this.#names === undefined ? 0 : this.#names.size)
  }

  get(key: unknown): number | undefined {
    return this.#names !== undefined && isShort(key) ? this.#names.get(key) : this.#map.get(key)
  }

  /** The seat of a key; one that is not there is entered at the seat on offer, which is nobody's. */
  take(key: unknown, offeredSeat: number): number {
    if (this.#names !== undefined && isShort(key)) return this.#names.take(key, offeredSeat)
    const known = this.#map.get(key)
    if (known !== undefined) return known
    this.#map.enter(key, offeredSeat)
    if (this.#names === undefined && this.#map.size > this.#many) this.#openTable()
    return offeredSeat
  }

  /** Deletes a key that is no string. */
  delete(key: unknown): void {
    this.#map.delete(key)
  }

  /** Drops the keys of some seats, in one walk: deleting each would look each up. */
  drop(seats: SeatFlags): void {
    this.#map.keep((_key, seat) => !seats.has(seat))
    if (this.#names === undefined) return
    this.#names.drop(seats)
    if (this.#names.size * 4 < this.#many) this.#closeTable(this.#names)
  }

  clear(): void {
    this.#map.clear()
    this.#names = undefined
  }

  /** Closes the gaps between `length` seats, keeping their order. Answers the new seat by old seat. */
  renumber(length: number): Uint32Array {
    const newSeats = new Uint32Array(length)
    const mark = (_key: unknown, seat: number): void => {
      newSeats[seat] = 1
    }
    this.#map.visitAll(mark)
    this.#names?.visitAll(mark)
    let count = 0
    for (let seat = 0; seat < length; seat++) if (newSeats[seat] === 1) newSeats[seat] = count++
    this.#map.visitAll((key, seat) => this.#map.set(key, newSeats[seat] as number))
    this.#names?.renumber(newSeats)
    return newSeats
  }

  #openTable(): void {
    const names = new NameTable()
    this.#map.keep((key, seat) => {
      if (!isShort(key)) return true
      names.take(key, seat)
      return false
    })
    this.#names = names
  }

  #closeTable(names: NameTable): void {
    this.#names = undefined
    names.visitAll((name, seat) => this.#map.enter(name, seat))
  }
}

function isShort(key: unknown): key is string {
  return typeof key === 'string' && key.length <= shortLength
}
