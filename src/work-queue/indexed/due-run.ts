/**
 * Timers that fell due together, in order, taken from the front. A heap puts itself in order after each one that is
 * taken; here that costs a step.
 *
 * Until it is taken each is found by its key index as before: whoever is called in the meantime may ask for it, or take it
 * back, which leaves a gap.
 */
import { type Timers, timersFor } from './sort-by-time.ts'

const gap = 0xffff_ffff
const nothing = timersFor(0)

export class DueRun {
  #dueAt = nothing.dueAt
  #indexes = nothing.indexes
  /** By key index: a position, which is the key index's own if it is not passed and the key index stands there. */
  #positionOf = nothing.indexes
  #first = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The earliest due time; Infinity when nothing is left. */
  get nextDueAt(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#dueAt[this.#first] as number)
  }

  /** Who comes first; only while `size > 0`. */
  get nextIndex(): number {
    return this.#indexes[this.#first] as number
  }

  has(index: number): boolean {
    if (this.#size === 0 || index >= this.#positionOf.length) return false
    const position = this.#positionOf[index] as number
    return position >= this.#first && this.#indexes[position] === index
  }

  dueAt(index: number): number {
    return this.#dueAt[this.#positionOf[index] as number] as number
  }

  /** Takes on timers that are in order, and whose key indexes are below a number, instead of what is here. */
  fill({ dueAt, indexes }: Timers, indexCount: number): void {
    this.#dueAt = dueAt
    this.#indexes = indexes
    this.#first = 0
    this.#size = indexes.length
    this.#positionOf = new Uint32Array(indexCount)
    for (let position = 0; position < indexes.length; position++)
      this.#positionOf[indexes[position] as number] = position
  }

  /** Takes a key index out; false if it is not here. */
  remove(index: number): boolean {
    if (this.#size === 0) return false
    if (this.#indexes[this.#first] === index) this.#first++
    else if (this.has(index)) this.#indexes[this.#positionOf[index] as number] = gap
    else return false
    if (--this.#size === 0) this.clear()
    else while (this.#indexes[this.#first] === gap) this.#first++
    return true
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    if (this.#size === 0) return
    const left = timersFor(this.#size)
    let count = 0
    let indexCount = 0
    for (let position = this.#first; count < this.#size; position++) {
      const oldIndex = this.#indexes[position] as number
      if (oldIndex === gap) continue
      const index = newIndexes[oldIndex] as number
      left.dueAt[count] = this.#dueAt[position] as number
      left.indexes[count++] = index
      indexCount = Math.max(indexCount, index + 1)
    }
    this.fill(left, indexCount)
  }

  /** Gives memory back; only while nothing is left. */
  clear(): void {
    this.#dueAt = nothing.dueAt
    this.#indexes = nothing.indexes
    this.#positionOf = nothing.indexes
    this.#first = 0
  }
}
