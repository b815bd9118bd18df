/** Times of single operations, kept without allocating while they are taken. */
export class Latencies {
  readonly #taken: Float64Array
  #count = 0

  constructor(most: number) {
    this.#taken = new Float64Array(most)
  }

  get count(): number {
    return this.#count
  }

  get isFull(): boolean {
    return this.#count === this.#taken.length
  }

  add(ms: number): void {
    this.#taken[this.#count++] = ms
  }

  /** In microseconds: the time that this share of the operations did not exceed. */
  at(share: number): number {
    const sorted = this.#taken.slice(0, this.#count).sort()
    return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]! * 1_000
  }

  /** In microseconds, of all together. */
  get total(): number {
    let sum = 0
    for (let at = 0; at < this.#count; at++) sum += this.#taken[at]!
    return sum * 1_000
  }
}

/** What every contestant of a selection tells: microseconds, and selections a second while nothing else is done. */
export function figuresOf(latencies: Latencies): { p50: number; p99: number; rate: number } {
  return {
    p50: latencies.at(0.5),
    p99: latencies.at(0.99),
    rate: (latencies.count / latencies.total) * 1e6,
  }
}
