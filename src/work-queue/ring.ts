/**
 * First in, first out, in one array that wraps round. It doubles when full and halves when three quarters are
 * empty, so a burst of a million leaves nothing behind and both ends cost a constant on average.
 */
const smallest = 16

export class Ring<T> {
  #slots: (T | undefined)[] = []
  #head = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  push(value: T): void {
    if (this.#size === this.#slots.length) this.#resize(Math.max(smallest, this.#size * 2))
    this.#slots[(this.#head + this.#size) & (this.#slots.length - 1)] = value
    this.#size++
  }

  /** The oldest value, left in place; only while `size > 0`. */
  peek(): T {
    return this.#slots[this.#head] as T
  }

  /** Takes the oldest value; only while `size > 0`. */
  shift(): T {
    const slots = this.#slots
    const head = this.#head
    const value = slots[head] as T
    slots[head] = undefined
    this.#head = (head + 1) & (slots.length - 1)
    this.#size--
    if (slots.length > smallest && this.#size * 4 <= slots.length) this.#resize(slots.length / 2)
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
    const slots = this.#slots
    const mask = slots.length - 1
    const resized = new Array<T | undefined>(capacity).fill(undefined)
    for (let i = 0; i < this.#size; i++) resized[i] = slots[(this.#head + i) & mask]
    this.#slots = resized
    this.#head = 0
  }
}
