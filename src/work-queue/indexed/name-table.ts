/**
 * The key indexes of many short strings, by a hash of our own.
 *
 * Among a million strings a look-up in a Map waits for memory several times: for the bucket, for each entry on its
 * chain, and for the string of each entry, where V8 keeps the hash that it compares. Here hash and key index lie side by
 * side in one flat block, and the only string that is touched is the one that is meant. The price is that the hash is
 * computed at every look-up; see IndexMap for when that pays. There is no deletion, only `drop`.
 */
import { extend, renumber } from './by-index.ts'
import type { IndexFlags } from './index-flags.ts'

const smallest = 1_024

// Another one in every process: names come from outside, and an attacker must not aim many of them at one cell.
export const multiplier: number = drawMultiplier()

export class NameTable {
  /** Two numbers a cell: the hash, and the key index plus one, which is 0 where the cell is empty. */
  #cells = new Uint32Array(2 * smallest)
  /** The number of cells, a power of two, less one. */
  #mask = smallest - 1
  /** By key index. */
  #names: (string | undefined)[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  get(name: string): number | undefined {
    const hash = hashOf(name, multiplier)
    const cells = this.#cells
    const mask = this.#mask
    for (let cell = hash & mask; ; cell = (cell + 1) & mask) {
      const stored = cells[2 * cell + 1] as number
      if (stored === 0) return undefined
      if (cells[2 * cell] === hash && this.#names[stored - 1] === name) return stored - 1
    }
  }

  /** The key index of a name; one that is not there is entered at the key index on offer. */
  take(name: string, offeredIndex: number): number {
    // Beyond two thirds the rows of full cells that a look-up walks along grow long.
    if (this.#size * 3 > this.#mask * 2) this.#resize((this.#mask + 1) * 2)
    const hash = hashOf(name, multiplier)
    const cells = this.#cells
    const mask = this.#mask
    let cell = hash & mask
    for (let stored = cells[2 * cell + 1] as number; stored !== 0; stored = cells[2 * cell + 1] as number) {
      if (cells[2 * cell] === hash && this.#names[stored - 1] === name) return stored - 1
      cell = (cell + 1) & mask
    }
    cells[2 * cell] = hash
    cells[2 * cell + 1] = offeredIndex + 1
    extend(this.#names, offeredIndex)
    this.#names[offeredIndex] = name
    this.#size++
    return offeredIndex
  }

  /** Drops the names of some key indexes. */
  drop(indexes: IndexFlags): void {
    const names = this.#names
    // By key index and not by cell, which would go to and fro in memory.
    for (let index = 0; index < names.length; index++) {
      if (names[index] === undefined || !indexes.has(index)) continue
      names[index] = undefined
      this.#size--
    }
    let capacity = smallest
    while (this.#size * 3 > capacity * 2) capacity *= 2
    this.#resize(capacity, indexes)
  }

  visitAll(visit: (name: string, index: number) => void): void {
    this.#names.forEach((name, index) => {
      if (name !== undefined) visit(name, index)
    })
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    const cells = this.#cells
    for (let at = 1; at < cells.length; at += 2) {
      const stored = cells[at] as number
      if (stored !== 0) cells[at] = (newIndexes[stored - 1] as number) + 1
    }
    this.#names = renumber(this.#names, newIndexes)
  }

  /** Moves to a table of another size, without the names of some key indexes. */
  #resize(capacity: number, dropped?: IndexFlags): void {
    const previous = this.#cells
    const cells = new Uint32Array(2 * capacity)
    const mask = capacity - 1
    for (let at = 0; at < previous.length; at += 2) {
      const stored = previous[at + 1] as number
      if (stored === 0 || dropped?.has(stored - 1)) continue
      const hash = previous[at] as number
      let cell = hash & mask
      while (cells[2 * cell + 1] !== 0) cell = (cell + 1) & mask
      cells[2 * cell] = hash
      cells[2 * cell + 1] = stored
    }
    this.#cells = cells
    this.#mask = mask
  }
}

/**
 * A multiplier for `hashOf`. Its last three bits are 101, so that its powers take every value they can: those of a
 * number whose low bits are all 0 but the last, or all 1, leave low bits alone, and then even plain names crowd together.
 */
export function drawMultiplier(random: () => number = Math.random): number {
  return ((random() * 2 ** 32) & ~7) | 5
}

export function hashOf(name: string, by: number): number {
  let hash = name.length
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), by)
  // The cell is chosen by the lowest bits, which only the lowest of each character have reached so far. The number is
  // MurmurHash3's, chosen to mix well whatever the multiplier is.
  hash = Math.imul(hash ^ (hash >>> 15), 0x85eb_ca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}
