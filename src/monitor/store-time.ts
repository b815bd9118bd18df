/**
 * The store's clock between two of its answers, in bounds: an answer was made after its question left and before it
 * came. What must not be too early is reckoned from the question, what must not be too late from the answer.
 */
export class StoreTime {
  readonly #clock: () => number
  readonly #now: number
  readonly #askedAt: number
  readonly #answeredAt: number

  constructor(now: number, askedAt: number, clock: () => number) {
    this.#clock = clock
    this.#now = now
    this.#askedAt = askedAt
    this.#answeredAt = clock()
  }

  /** It is at least this late. */
  earliest(): number {
    return Math.floor(this.#now + this.#clock() - this.#answeredAt)
  }

  /** It is at most this late. */
  latest(): number {
    return Math.ceil(this.#now + this.#clock() - this.#askedAt)
  }

  /** How long ago the answer came. */
  get ageMs(): number {
    return this.#clock() - this.#answeredAt
  }
}
