/**
 * A key index for every key that a queue knows: a small number, so that all that is known of the key is in plain arrays.
 * A look-up of a key is the most expensive step of a queue. With key indexes it happens once a call, whether the key is
 * queued, in flight, waiting, or several of these. Decision 016 has what this buys.
 *
 *   (unknown) -- take --> taken -- leave --> resting -- swept out with all others that rest --> (unknown)
 *                           ^                   |
 *                           +------ take -------+
 *
 * A key that became idle rests: it keeps its key index, because the same names come back over and over. Keys that do not come
 * back are dropped later in one walk, which costs less than deleting each. Objects never rest: a key must not keep
 * them alive.
 */

/** How many keys may rest, besides four for every key index that is taken. */
const fewKeys = 1_024

export class KeyIndexes {
  readonly #indexOf = new KeyMap<number>()
  /** By key index; kept only where a key cannot be had from the item. */
  #keys: unknown[] = []
  readonly #keepsKeys: boolean
  readonly #few: number
  #freeIndexes: number[] = []
  /** How many key indexes there are, taken, resting or free: the length of the arrays by key index. */
  #length = 0
  readonly #rests = new IndexFlags()
  #restingCount = 0
  /** How many keys are objects. While there are none, a key that becomes idle need not be looked at. */
  #objectCount = 0

  /** Tests give a smaller `few`. */
  constructor(keepsKeys: boolean, few: number = fewKeys) {
    this.#keepsKeys = keepsKeys
    this.#few = few
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
    const known = this.#indexOf.get(key)
    if (known === undefined) return this.#enter(key)
    if (this.#rests.has(known)) {
      this.#rests.lower(known)
      this.#restingCount--
    }
    return known
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

  #enter(key: unknown): number {
    const index = this.#freeIndexes.pop() ?? this.#length++
    this.#indexOf.enter(key, index)
    if (isObject(key)) this.#objectCount++
    if (this.#keepsKeys) this.#keys[index] = key
    return index
  }

  #free(index: number): void {
    this.#freeIndexes.push(index)
    if (this.#keepsKeys) this.#keys[index] = undefined
  }

  /** Forgets all keys that rest. */
  #sweep(): void {
    this.#indexOf.keep((_key, index) => !this.#rests.has(index))
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
   * Whether so few key indexes are in use that closing the gaps pays. Not while there are hardly more of them than may rest:
   * a stream of new names would renumber after every sweep.
   */
  get isSparse(): boolean {
    return this.#length >= Math.max(64, 4 * this.#few) && this.#indexOf.size * 8 <= this.#length
  }

  /** Closes the gaps, so that memory follows a burst down again. Returns the new index by the old one. */
  renumber(): Uint32Array {
    const newIndexes = new Uint32Array(this.#length)
    this.#indexOf.visitAll((_key, index) => {
      newIndexes[index] = 1
    })
    let count = 0
    for (let index = 0; index < newIndexes.length; index++) {
      if (newIndexes[index] === 1) newIndexes[index] = count++
    }
    this.#indexOf.visitAll((key, index) => this.#indexOf.set(key, newIndexes[index] as number))
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

/** A flag per key index, a byte each. */
class IndexFlags {
  #flags = new Uint8Array(16)

  has(index: number): boolean {
    return this.#flags[index] === 1
  }

  raise(index: number): void {
    if (index >= this.#flags.length) this.#grow(index * 2)
    this.#flags[index] = 1
  }

  lower(index: number): void {
    this.#flags[index] = 0
  }

  clear(): void {
    this.#flags = new Uint8Array(16)
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    const flags = this.#flags
    this.clear()
    for (let oldIndex = 0; oldIndex < newIndexes.length; oldIndex++) {
      if (flags[oldIndex] === 1) this.raise(newIndexes[oldIndex] as number)
    }
  }

  #grow(length: number): void {
    const grown = new Uint8Array(length)
    grown.set(this.#flags)
    this.#flags = grown
  }
}

/** Makes an array by key index long enough; a write far beyond its end would make it slow. */
export function extend<V>(values: (V | undefined)[], index: number): void {
  while (values.length <= index) values.push(undefined)
}

/** The values by key index, after key indexes were renumbered. */
export function renumber<V>(values: readonly (V | undefined)[], newIndexes: Uint32Array): (V | undefined)[] {
  const moved: (V | undefined)[] = []
  values.forEach((value, oldIndex) => {
    if (value === undefined) return
    const index = newIndexes[oldIndex] as number
    extend(moved, index)
    moved[index] = value
  })
  return moved
}

/**
 * A Map whose keys come and go for ever.
 *
 * V8 leaves a deleted entry in its hash chain until the map is rebuilt, and it rebuilds a map only when it has filled
 * up. A few keys that are entered and deleted over and over among a million others would walk past ever more of their
 * own remains: measured, from 0.3 to 100 microseconds an operation within seconds. So the map is rebuilt once as many
 * keys were entered after deletions as an eighth of its size.
 */
const few = 1_024

export class KeyMap<V> {
  #map = new Map<unknown, V>()
  #deletedCount = 0
  #refilledCount = 0
  /**
   * Walks the keys from the first on. It lives as long as the map: what it has passed is gone or was entered again behind it,
   * while a new walk would step over every hole that deleted keys left.
   */
  #first: MapIterator<unknown> | undefined

  get size(): number {
    return this.#map.size
  }

  get(key: unknown): V | undefined {
    return this.#map.get(key)
  }

  /** Changes the value of a key that is there. */
  set(key: unknown, value: V): void {
    this.#map.set(key, value)
  }

  /** Enters a key that is not there. */
  enter(key: unknown, value: V): void {
    if (this.#deletedCount > 0 && ++this.#refilledCount > few + (this.#map.size >> 3))
      this.#replace(new Map(this.#map))
    this.#map.set(key, value)
  }

  delete(key: unknown): void {
    if (this.#map.delete(key)) this.#deletedCount++
  }

  /** Deletes the key that was entered first; only while `size > 0`. */
  deleteFirst(): void {
    this.#first ??= this.#map.keys()
    const { value, done } = this.#first.next()
    if (done) this.#first = undefined
    else this.delete(value)
  }

  /** Drops every key that does not pass, in one walk: deleting each would look each up. */
  keep(passes: (key: unknown, value: V) => boolean): void {
    const kept = new Map<unknown, V>()
    this.#map.forEach((value, key) => {
      if (passes(key, value)) kept.set(key, value)
    })
    this.#replace(kept)
  }

  clear(): void {
    this.#map.clear()
    this.#first = undefined
    this.#deletedCount = 0
    this.#refilledCount = 0
  }

  /** From the one that was entered first. The visitor may set values, and nothing else. */
  visitAll(visit: (key: unknown, value: V) => void): void {
    for (const [key, value] of this.#map) visit(key, value)
  }

  #replace(map: Map<unknown, V>): void {
    this.#map = map
    this.#first = undefined
    this.#deletedCount = 0
    this.#refilledCount = 0
  }
}
