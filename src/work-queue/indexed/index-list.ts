/**
 * First in, first out, without an object for what is queued: by key index stand its item and who comes behind it. A million
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

export class IndexList<T> implements Pending<T> {
  #size = 0
  /** Both ends of the line; they say nothing while it is empty. */
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
