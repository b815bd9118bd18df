/**
 * The turns in flight, by key index. The one that was taken last stands apart, so a consumer who ends each turn before he
 * takes the next costs no element of the array, and is found by his item without looking its key up.
 */

import type { Turn } from '../turn.ts'
import { extend, renumber } from './by-index.ts'

export class InFlight<T> {
  #latest: Turn<T> | undefined
  /** By key index: all but the latest. */
  #others: (Turn<T> | undefined)[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The turn that was put here last, if it is still here. */
  get latest(): Turn<T> | undefined {
    return this.#latest
  }

  find(index: number): Turn<T> | undefined {
    const latest = this.#latest
    return latest !== undefined && latest.index === index ? latest : this.#others[index]
  }

  put(turn: Turn<T>): void {
    const previous = this.#latest
    if (previous !== undefined) {
      extend(this.#others, previous.index)
      this.#others[previous.index] = previous
    }
    this.#latest = turn
    this.#size++
  }

  /** Takes a turn out that is here. */
  remove(turn: Turn<T>): void {
    if (turn === this.#latest) this.#latest = undefined
    else this.#others[turn.index] = undefined
    this.#size--
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    for (const turn of [this.#latest, ...this.#others]) {
      if (turn !== undefined) turn.index = newIndexes[turn.index] as number
    }
    this.#others = renumber(this.#others, newIndexes)
  }

  /** Gives memory back; only while nothing is in flight. */
  clear(): void {
    this.#others = []
  }
}
