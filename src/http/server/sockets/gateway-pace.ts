import { type Clock, systemClock } from '../../../core/clock.ts'

/** How often something may happen: `burst` at once, and `perSecond` in the long run. */
export interface PaceOptions {
  readonly perSecond: number
  readonly burst: number
  readonly clock?: Clock
}

/** A bucket that fills by the time and is emptied by use. It may be overdrawn; how long that takes to mend is told. */
export class Pace {
  readonly #perMs: number
  readonly #burst: number
  readonly #clock: Clock
  #left: number
  #readAt: number

  constructor({ perSecond, burst, clock = systemClock }: PaceOptions) {
    this.#perMs = perSecond / 1_000
    this.#burst = burst
    this.#clock = clock
    this.#left = burst
    this.#readAt = clock.now()
  }

  /** Takes one; answers the milliseconds until there is one again, 0 when there is. */
  spend(): number {
    // The clock is read only when the bucket seems empty: most of those who come never get there.
    if (--this.#left >= 0) return 0
    const now = this.#clock.now()
    this.#left = Math.min(this.#burst, this.#left + (now - this.#readAt) * this.#perMs)
    this.#readAt = now
    return this.#left >= 0 ? 0 : Math.ceil(-this.#left / this.#perMs)
  }
}
