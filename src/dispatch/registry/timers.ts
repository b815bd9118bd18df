/** Instants to come, in a heap that knows where each timer lies, so that one that is not needed is taken out at once. */

/** A timer: what for, about whom, and when. */
export interface Timer<Kind extends string, Subject> {
  readonly kind: Kind
  readonly subject: Subject
  at: number
  /** Its place in the heap; -1: not set. */
  place: number
}

/** Makes a timer that is not set yet. */
export function createTimer<Kind extends string, Subject>(
  kind: Kind,
  subject: Subject,
): Timer<Kind, Subject> {
  return { kind, subject, at: 0, place: -1 }
}

/** A heap of timers; of those due at one instant the order is that of the heap: the same for the same history. */
export class Timers<T extends Timer<string, unknown>> {
  readonly #heap: T[] = []

  get size(): number {
    return this.#heap.length
  }

  /** When the next one is due; Infinity when none is set. */
  get nextAt(): number {
    return this.#heap[0]?.at ?? Number.POSITIVE_INFINITY
  }

  /** Sets a timer, or moves one that is set. */
  set(timer: T, at: number): void {
    timer.at = at
    if (timer.place < 0) {
      timer.place = this.#heap.length
      this.#heap.push(timer)
      this.#rise(timer)
    } else {
      this.#rise(timer)
      this.#sink(timer)
    }
  }

  /** Takes a timer out; one that is not set stays so. */
  clear(timer: T): void {
    const { place } = timer
    if (place < 0) return
    timer.place = -1
    const last = this.#heap.pop()!
    if (last === timer) return
    last.place = place
    this.#heap[place] = last
    this.#rise(last)
    this.#sink(last)
  }

  /** Takes out the next timer if it is due. */
  takeDue(now: number): T | undefined {
    const timer = this.#heap[0]
    if (timer === undefined || timer.at > now) return undefined
    this.clear(timer)
    return timer
  }

  #rise(timer: T): void {
    let { place } = timer
    while (place > 0) {
      const above = (place - 1) >> 1
      const parent = this.#heap[above]!
      if (parent.at <= timer.at) break
      this.#heap[place] = parent
      parent.place = place
      place = above
    }
    this.#heap[place] = timer
    timer.place = place
  }

  #sink(timer: T): void {
    const size = this.#heap.length
    let { place } = timer
    for (;;) {
      let below = place * 2 + 1
      if (below >= size) break
      if (below + 1 < size && this.#heap[below + 1]!.at < this.#heap[below]!.at) below += 1
      const child = this.#heap[below]!
      if (child.at >= timer.at) break
      this.#heap[place] = child
      child.place = place
      place = below
    }
    this.#heap[place] = timer
    timer.place = place
  }
}
