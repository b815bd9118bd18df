/** How many resting or refilled keys any map may have before it is rebuilt. */
const maxLeftovers = 1_024
/** The same for an empty map. */
const maxLeftoversWhenEmpty = 64

/**
 * A Map whose keys are added and removed constantly.
 *
 * V8 leaves a deleted entry in its hash chain until it rebuilds the map, and it rebuilds a map only when the map is
 * full. If a few keys among a million are entered and deleted repeatedly, each operation walks past more deleted
 * entries: it slowed from 0.3 to 100 microseconds within seconds. So this class rebuilds the map when the number of
 * keys that were entered after deletions exceeds an eighth of its size.
 *
 * A removed primitive key rests: it keeps its entry, because the same keys often return. Keys that do not return are
 * dropped later in one walk. Objects never rest, because the map must not keep them alive.
 */
export class KeyMap<V> {
  /** Undefined: the key rests. */
  #map = new Map<unknown, V | undefined>()
  #restingCount = 0
  #deletedCount = 0
  #refilledCount = 0
  /**
   * Iterates over the keys from the first. It lives as long as the map: keys that it has passed are gone or were
   * entered again at the end. A new iterator would step over every deleted entry.
   */
  #first: MapIterator<unknown> | undefined

  get size(): number {
    return this.#map.size - this.#restingCount
  }

  get(key: unknown): V | undefined {
    return this.#map.get(key)
  }

  /** Changes the value of a present key. */
  set(key: unknown, value: V): void {
    this.#map.set(key, value)
  }

  /** Enters an absent key. */
  enter(key: unknown, value: V): void {
    if (this.#deletedCount > 0 && ++this.#refilledCount > maxLeftovers + (this.#map.size >> 3))
      this.#rebuild()
    const { size } = this.#map
    this.#map.set(key, value)
    if (this.#map.size === size) this.#restingCount--
  }

  /** Removes a present key that may return. */
  leave(key: unknown): void {
    if (typeof key === 'object' || typeof key === 'function') {
      this.delete(key)
      return
    }
    this.#map.set(key, undefined)
    const restingCount = ++this.#restingCount
    const { size } = this
    if (restingCount > (size === 0 ? maxLeftoversWhenEmpty : maxLeftovers + 4 * size)) this.#rebuild()
  }

  /** Removes a key permanently. */
  delete(key: unknown): void {
    if (!this.#map.delete(key)) return
    this.#deletedCount++
    // V8 keeps the table of an empty map as large as it once was.
    if (this.#map.size === 0 && this.#deletedCount > maxLeftoversWhenEmpty) this.#rebuild()
  }

  /** Deletes the key that was entered first and returns its value. Only while `size > 0` and no key rests. */
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
