/**
 * A key index for every key that a queue knows of: a small number, so that all that is known of the key stands in plain
 * arrays. Looking a key up is the dearest thing a queue does; with key indexes it happens once a call, whether the key is
 * queued, in flight, waiting, or several of these.
 *
 *   (unknown) -- take --> taken -- leave --> resting -- swept out with all others that rest --> (unknown)
 *                           ^                   |
 *                           +------ take -------+
 *
 * A key that became idle rests: it keeps its key index, since the same names come back over and over, and one that does not
 * is swept out later in one walk over the map, which costs less than deleting each by itself: a deletion is a look-up.
 * Objects never rest: a key must not keep them alive.
 */
import { renumber } from './by-index.ts'
import { IndexFlags } from './index-flags.ts'
import { IndexMap } from './index-map.ts'

/** So many may rest, and four more for every key index that is taken. */
const fewKeys = 1_024

export class KeyIndexes {
  readonly #indexOf: IndexMap
  /** By key index; kept only where a key cannot be had from the item. */
  #keys: unknown[] = []
  readonly #keepsKeys: boolean
  readonly #few: number
  #freeIndexes: number[] = []
  /** How many key indexes there are, taken, resting or free: the length of what stands by key index. */
  #length = 0
  readonly #rests = new IndexFlags()
  #restingCount = 0
  /** How many keys are objects. While there are none, a key that becomes idle need not be looked at. */
  #objectCount = 0

  /** The sizes at which it works differently are given by tests alone. */
  constructor(keepsKeys: boolean, few: number = fewKeys, indexOf: IndexMap = new IndexMap()) {
    this.#keepsKeys = keepsKeys
    this.#few = few
    this.#indexOf = indexOf
  }

  /** How many keys have an index, those that rest included. */
  get size(): number {
    return this.#indexOf.size
  }

  /** The key index of a key, which may rest there. */
  find(key: unknown): number | undefined {
    return this.#indexOf.get(key)
  }

  /** The key of an index, for those that keep keys. */
  keyAt(index: number): unknown {
    return this.#keys[index]
  }

  /** The key index of a key, a new one if it has none. */
  take(key: unknown): number {
    const freeIndexes = this.#freeIndexes
    const freeIndex = freeIndexes.length > 0 ? (freeIndexes[freeIndexes.length - 1] as number) : this.#length
    const index = this.#indexOf.take(key, freeIndex)
    if (index === freeIndex) this.#entered(index, key)
    else if (this.#rests.has(index)) {
      this.#rests.lower(index)
      this.#restingCount--
    }
    return index
  }

  /** Gives up a taken key index whose key is idle, or lets the key rest there. */
  leave(index: number, key: unknown): void {
    if (this.#objectCount > 0 && isObject(key)) {
      this.#objectCount--
      this.#indexOf.delete(key)
      this.#free(index)
      return
    }
    this.#rests.raise(index)
    this.#restingCount++
    const takenCount = this.#indexOf.size - this.#restingCount
    if (this.#restingCount > this.#few + 4 * takenCount) this.#sweep()
  }

  /** A key index that was free is a new key's. */
  #entered(index: number, key: unknown): void {
    if (index === this.#length) this.#length++
    else this.#freeIndexes.pop()
    if (isObject(key)) this.#objectCount++
    if (this.#keepsKeys) this.#keys[index] = key
  }

  #free(index: number): void {
    this.#freeIndexes.push(index)
    if (this.#keepsKeys) this.#keys[index] = undefined
  }

  /** Forgets all keys that rest. */
  #sweep(): void {
    this.#indexOf.drop(this.#rests)
    for (let index = 0; index < this.#length; index++) {
      if (!this.#rests.has(index)) continue
      this.#rests.lower(index)
      this.#free(index)
    }
    this.#restingCount = 0
  }

  clear(): void {
    this.#indexOf.clear()
    this.#keys = []
    this.#freeIndexes = []
    this.#length = 0
    this.#objectCount = 0
    this.#rests.clear()
    this.#restingCount = 0
  }

  /**
   * Whether so few key indexes are in use that it is worth while to close the gaps. Not while all of them are hardly more than
   * may rest anyhow: a stream of new names would do it after every sweep.
   */
  get sparse(): boolean {
    return this.#length >= Math.max(64, 4 * this.#few) && this.#indexOf.size * 8 <= this.#length
  }

  /** Closes the gaps, so that memory follows a burst down again. Answers the new index by the old one. */
  renumber(): Uint32Array {
    const newIndexes = this.#indexOf.renumber(this.#length)
    this.#keys = renumber(this.#keys, newIndexes)
    this.#freeIndexes = []
    this.#length = this.#indexOf.size
    this.#rests.renumber(newIndexes)
    return newIndexes
  }
}

function isObject(key: unknown): boolean {
  return typeof key === 'object' || typeof key === 'function'
}
