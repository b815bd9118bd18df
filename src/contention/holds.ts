/**
 * When a kind lately had its turns, in fixed memory: a ring of spans, so that somebody who waited can be told who ran
 * meanwhile. A turn of a millisecond or more has a span of its own. Shorter ones that follow closely share one, with
 * the time that they took in it: what is so short matters by its sum, not one by one.
 */
export class Holds {
  readonly #size: number
  readonly #from: Float64Array
  readonly #to: Float64Array
  /** Milliseconds of turns within the span; more than its length where turns went on side by side. */
  readonly #busy: Float64Array
  /** How many spans were ever begun; the newest lies at `#count - 1`, modulo the size. */
  #count = 0

  constructor(size: number = recentHolds) {
    this.#size = size
    this.#from = new Float64Array(size)
    this.#to = new Float64Array(size)
    this.#busy = new Float64Array(size)
  }

  /** A turn from one instant to another. */
  add(from: number, to: number, busyMs: number = to - from): void {
    if (!(to > from)) return
    const last = (this.#count - 1) % this.#size
    if (this.#count > 0 && to - from < ownSpanMs && this.#joins(last, from, to)) {
      if (from < this.#from[last]!) this.#from[last] = from
      if (to > this.#to[last]!) this.#to[last] = to
      this.#busy[last]! += busyMs
      return
    }
    const at = this.#count++ % this.#size
    this.#from[at] = from
    this.#to[at] = to
    this.#busy[at] = busyMs
  }

  /** When the newest span ended; nothing overlaps what began after it. */
  get lastAt(): number {
    return this.#count === 0 ? Number.NEGATIVE_INFINITY : this.#to[(this.#count - 1) % this.#size]!
  }

  /** How many milliseconds of turns lie between two instants. */
  between(from: number, to: number): number {
    let ms = 0
    const oldest = Math.max(0, this.#count - this.#size)
    for (let number = this.#count - 1; number >= oldest; number--) {
      const at = number % this.#size
      const end = this.#to[at]!
      // Spans lie in the order in which they ended.
      if (end <= from) break
      const start = this.#from[at]!
      if (start >= to) continue
      const overlap = Math.min(end, to) - Math.max(start, from)
      ms += (overlap / (end - start)) * this.#busy[at]!
    }
    return ms
  }

  #joins(last: number, from: number, to: number): boolean {
    const [start, end] = [this.#from[last]!, this.#to[last]!]
    const isShort = this.#busy[last]! < sharedSpanMs && end - start < sharedSpanMs
    return isShort && from >= start && from - end < ownSpanMs && to - start <= sharedSpanMs
  }
}

/** With spans of 4 ms at the least when turns are many, that is 4 s of past. */
export const recentHolds = 1_024
const ownSpanMs = 1
const sharedSpanMs = 4
