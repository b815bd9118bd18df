/**
 * From a key to its index: a Map, as long as it is small enough for the processor's caches, and beyond that a NameTable
 * for short strings, which then are by far the most keys. Measured with names of 16 characters, in nanoseconds a
 * look-up:
 *
 *                 100    30,000    100,000    1,000,000
 *   Map            15        35         85          430
 *   NameTable      55        55         60          250
 */

import type { IndexFlags } from './index-flags.ts'
import { KeyMap } from './key-map.ts'
import { NameTable } from './name-table.ts'

/** From so many keys on, names are kept in a table; below a quarter of it no longer. */
const manyKeys = 65_536
/** Beyond, it costs more to compute a hash than the table saves. */
const shortLength = 32

export class IndexMap {
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

  /** The key index of a key; one that is not there is entered at the key index on offer, which is free. */
  take(key: unknown, offeredIndex: number): number {
    if (this.#names !== undefined && isShort(key)) return this.#names.take(key, offeredIndex)
    const known = this.#map.get(key)
    if (known !== undefined) return known
    this.#map.enter(key, offeredIndex)
    if (this.#names === undefined && this.#map.size > this.#many) this.#openTable()
    return offeredIndex
  }

  /** Deletes a key that is no string. */
  delete(key: unknown): void {
    this.#map.delete(key)
  }

  /** Drops the keys of some key indexes, in one walk: deleting each would look each up. */
  drop(indexes: IndexFlags): void {
    this.#map.keep((_key, index) => !indexes.has(index))
    if (this.#names === undefined) return
    this.#names.drop(indexes)
    if (this.#names.size * 4 < this.#many) this.#closeTable(this.#names)
  }

  clear(): void {
    this.#map.clear()
    this.#names = undefined
  }

  /** Closes the gaps between `length` key indexes, keeping their order. Answers the new index by the old one. */
  renumber(length: number): Uint32Array {
    const newIndexes = new Uint32Array(length)
    const mark = (_key: unknown, index: number): void => {
      newIndexes[index] = 1
    }
    this.#map.visitAll(mark)
    this.#names?.visitAll(mark)
    let count = 0
    for (let index = 0; index < length; index++) if (newIndexes[index] === 1) newIndexes[index] = count++
    this.#map.visitAll((key, index) => this.#map.set(key, newIndexes[index] as number))
    this.#names?.renumber(newIndexes)
    return newIndexes
  }

  #openTable(): void {
    const names = new NameTable()
    this.#map.keep((key, index) => {
      if (!isShort(key)) return true
      names.take(key, index)
      return false
    })
    this.#names = names
  }

  #closeTable(names: NameTable): void {
    this.#names = undefined
    names.visitAll((name, index) => this.#map.enter(name, index))
  }
}

function isShort(key: unknown): key is string {
  return typeof key === 'string' && key.length <= shortLength
}
