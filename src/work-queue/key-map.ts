/** How many resting keys, or refills, a map of any size may have before it is made anew. */
const few = 1_024
/** The same for an empty map. */
const fewOfNone = 64

/**
 * A Map whose keys come and go for ever.
 *
 * V8 leaves a deleted entry in its hash chain until the map is rebuilt, and it rebuilds a map only when it has filled
 * up. A few keys that are entered and deleted over and over among a million others would walk past ever more of their
 * own remains: measured, from 0.3 to 100 microseconds an operation within seconds. So the map is rebuilt once as many
 * keys were entered after deletions as an eighth of its size.
 *
 * A name that leaves rests: it keeps its entry, because the same names come back over and over. Names that do not come
 * back are dropped later in one walk. Objects never rest: a key must not keep them alive.
 */
export class KeyMap<V> {
  /** Undefined: the key rests. */
  #map = new Map<unknown, V | undefined>()
  #restingCount = 0
  #deletedCount = 0
  #refilledCount = 0
  /**
   * Walks the keys from the first on. It lives as long as the map: what it has passed is gone or was entered again behind it,
   * while a new walk would step over every hole that deleted keys left.
   */
  #first: MapIterator<unknown> | undefined

  get size(): number {
    return this.#map.size - this.#restingCount
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
    if (this.#deletedCount > 0 && ++this.#refilledCount > few + (this.#map.size >> 3)) this.#rebuild()
    const { size } = this.#map
    this.#map.set(key, value)
    if (this.#map.size === size) this.#restingCount--
  }

  /** Takes out a key that is there and may come back. */
  leave(key: unknown): void {
    if (typeof key === 'object' || typeof key === 'function') {
      this.delete(key)
      return
    }
    this.#map.set(key, undefined)
    const restingCount = ++this.#restingCount
    const { size } = this
    if (restingCount > (size === 0 ? fewOfNone : few + 4 * size)) this.#rebuild()
  }

  /** Takes a key out for good. */
  delete(key: unknown): void {
    if (!this.#map.delete(key)) return
    this.#deletedCount++
    // V8 keeps the table of an empty map as large as it once was.
    if (this.#map.size === 0 && this.#deletedCount > fewOfNone) this.#rebuild()
  }

  /** Deletes the key that was entered first, and returns its value; only while `size > 0`, and where no key rests. */
  takeFirst(): V | undefined {
    this.#first ??= this.#map.keys()
    const { value: key, done } = this.#first.next()
    if (done) {
      this.#first = undefined
      return this.size === 0 ? undefined : this.takeFirst()
    }
    const value = this.#map.get(key)
    this.delete(key)
    return value
  }

  #rebuild(): void {
    const map = new Map<unknown, V | undefined>()
    for (const [key, value] of this.#map) if (value !== undefined) map.set(key, value)
    this.#map = map
    this.#first = undefined
    this.#restingCount = 0
    this.#deletedCount = 0
    this.#refilledCount = 0
  }
}
