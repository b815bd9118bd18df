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
