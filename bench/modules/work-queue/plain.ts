/**
 * The limit: client-go's rule (in the line = must be done and not in hand) in the plainest code that keeps it. Two
 * sets and an array with a read position; no waiting getters, no priorities, no checks, no shutdown. Reviewed like
 * a test: it may leave out features, never the rule.
 */
export class PlainQueue {
  readonly #dirty = new Set<string>()
  readonly #processing = new Set<string>()
  #line: string[] = []
  #head = 0

  get size(): number {
    return this.#line.length - this.#head
  }

  add(item: string): boolean {
    if (this.#dirty.has(item)) return false
    this.#dirty.add(item)
    if (!this.#processing.has(item)) this.#line.push(item)
    return true
  }

  /** Only called while something is in the line. */
  take(): string {
    const item = this.#line[this.#head++]!
    // Half of the array is behind us: cut it off. Seldom enough to cost nothing a take.
    if (this.#head >= 1_024 && this.#head * 2 >= this.#line.length) {
      this.#line = this.#line.slice(this.#head)
      this.#head = 0
    }
    this.#dirty.delete(item)
    this.#processing.add(item)
    return item
  }

  done(item: string): void {
    this.#processing.delete(item)
    if (this.#dirty.has(item)) this.#line.push(item)
  }
}
