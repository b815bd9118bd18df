const smallest = 16

/**
 * First in, first out, in one array that wraps round. It doubles when full and halves when three quarters are empty, so
 * a burst of a million leaves nothing behind.
 */
export class Ring<T> {
  #values: (T | undefined)[] = []
  #head = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  push(value: T): void {
    if (this.#size === this.#values.length) this.#resize(Math.max(smallest, this.#size * 2))
    this.#values[(this.#head + this.#size) & (this.#values.length - 1)] = value
    this.#size++
  }

  /** The oldest value, left in the ring; only while `size > 0`. */
  peek(): T {
    return this.#values[this.#head] as T
  }

  /** Takes the oldest value; only while `size > 0`. */
  shift(): T {
    const values = this.#values
    const head = this.#head
    const value = values[head] as T
    values[head] = undefined
    this.#head = (head + 1) & (values.length - 1)
    this.#size--
    if (values.length > smallest && this.#size * 4 <= values.length) this.#resize(values.length / 2)
    return value
  }

  /** Drops every value that does not pass, keeping the order of the rest. */
  keep(passes: (value: T) => boolean): void {
    for (let left = this.#size; left > 0; left--) {
      const value = this.shift()
      if (passes(value)) this.push(value)
    }
  }

  #resize(capacity: number): void {
    const values = this.#values
    const mask = values.length - 1
    const resized = new Array<T | undefined>(capacity).fill(undefined)
    for (let i = 0; i < this.#size; i++) resized[i] = values[(this.#head + i) & mask]
    this.#values = resized
    this.#head = 0
  }
}
