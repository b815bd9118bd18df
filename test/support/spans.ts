import assert from 'node:assert/strict'

/**
 * Runs a story that must reach a certain point before a span is over: first with a short span, then with longer ones if
 * the machine, or its disk, froze meanwhile. The story returns nothing when it came too late; a real mistake also fails
 * with the longest span.
 */
export async function inGrowingSpans<Answer>(
  what: string,
  story: (spanMs: number) => Promise<Answer | undefined>,
): Promise<Answer> {
  for (const spanMs of [60, 240, 960, 3_840]) {
    const answer = await story(spanMs)
    if (answer !== undefined) return answer
  }
  assert.fail(`${what}, within each of its spans`)
}

/**
 * Runs a story about a lease that is renewed. If it fails after a process froze for so long that the lease may have
 * expired, it runs again with a longer lease. Any other failure counts at once.
 */
export async function inGrowingLeases<Answer>(
  leastMs: number,
  story: (leaseMs: number, stills: Stills) => Promise<Answer>,
): Promise<Answer> {
  for (let leaseMs = leastMs; ; leaseMs *= 4) {
    using stills = new Stills()
    try {
      return await story(leaseMs, stills)
    } catch (error) {
      if (leaseMs >= 16 * leastMs || stills.longestMs <= leaseMs / 10) throw error
    }
  }
}

/** The longest time for which this process, or the service that a story asks, froze. */
export class Stills implements Disposable {
  #lastAt = performance.now()
  #longestMs = 0
  readonly #timer = setInterval(() => this.#look(), 5)

  get longestMs(): number {
    this.#look()
    return this.#longestMs
  }

  /** Asks a party that may be paused as well: an engine, another process. */
  async during<Answer>(asking: Promise<Answer>): Promise<Answer> {
    const begunAt = performance.now()
    try {
      return await asking
    } finally {
      this.#longestMs = Math.max(this.#longestMs, performance.now() - begunAt)
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const now = performance.now()
    this.#longestMs = Math.max(this.#longestMs, now - this.#lastAt)
    this.#lastAt = now
  }
}
