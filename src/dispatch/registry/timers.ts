/** Instants to come, in a heap that knows where each timer lies, so that one that is not needed is taken out at once. */

/** A timer: what for, about whom, and when. */
export interface Timer<Kind extends string, Subject> {
  readonly kind: Kind
  readonly subject: Subject
  at: number
  /** Its index in the heap; -1: not set. */
  position: number
}

/** Makes a timer that is not set yet. */
export function createTimer<Kind extends string, Subject>(
  kind: Kind,
  subject: Subject,
): Timer<Kind, Subject> {
  return { kind, subject, at: 0, position: -1 }
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
    if (timer.position < 0) {
      timer.position = this.#heap.length
      this.#heap.push(timer)
      this.#rise(timer)
    } else {
      this.#rise(timer)
      this.#sink(timer)
    }
  }

  /** Takes a timer out; one that is not set stays so. */
  clear(timer: T): void {
    const { position } = timer
    if (position < 0) return
    timer.position = -1
    const last = this.#heap.pop()!
    if (last === timer) return
    last.position = position
    this.#heap[position] = last
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
    let { position } = timer
    while (position > 0) {
      const above = (position - 1) >> 1
      const parent = this.#heap[above]!
      if (parent.at <= timer.at) break
      this.#heap[position] = parent
      parent.position = position
      position = above
    }
    this.#heap[position] = timer
    timer.position = position
  }

  #sink(timer: T): void {
    const size = this.#heap.length
    let { position } = timer
    for (;;) {
      let below = position * 2 + 1
      if (below >= size) break
      if (below + 1 < size && this.#heap[below + 1]!.at < this.#heap[below]!.at) below += 1
      const child = this.#heap[below]!
      if (child.at >= timer.at) break
      this.#heap[position] = child
      child.position = position
      position = below
    }
    this.#heap[position] = timer
    timer.position = position
  }
}
