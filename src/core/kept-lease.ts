import { type Clock, systemClock } from './clock.ts'
import { isSignalboxError } from './errors.ts'

export interface KeptLeaseParts {
  readonly leaseMs: number
  /** When the call that got the lease was sent. */
  readonly sentAt: number
  /** Renews the lease for another `leaseMs`; rejects with `lease_lost` when it is gone. */
  readonly renew: () => Promise<unknown>
  /** The reason with which the signal aborts. */
  readonly lost: () => Error
  /** @default systemClock */
  readonly clock?: Clock
}

/**
 * Renews a lease at a third of its time, and counts it as lost no later than its time after the last renewal was *sent*,
 * by this process's own monotonic clock: then `signal` aborts, whatever the store thinks. So a process that was frozen, or
 * is cut off from the store, learns that it lost the lease.
 */
export class KeptLease {
  readonly #parts: KeptLeaseParts
  readonly #clock: Clock
  readonly #loss = new AbortController()
  #lostAt: number
  #lossTimer: unknown
  #renewTimer: unknown
  #isOver = false
  #isRefused = false

  constructor(parts: KeptLeaseParts) {
    this.#parts = parts
    this.#clock = parts.clock ?? systemClock
    this.#lostAt = parts.sentAt + parts.leaseMs
    this.#watchLoss()
    this.#renewLater(parts.leaseMs / 3)
  }

  /** Aborts when the lease is lost. */
  get signal(): AbortSignal {
    return this.#loss.signal
  }

  /** It was lost, or is kept no longer. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** The store said that the lease is gone. */
  get isRefused(): boolean {
    return this.#isRefused
  }

  /** Renews now, by `renew` where that is given. */
  async renew(renew: () => Promise<unknown> = this.#parts.renew): Promise<void> {
    const sentAt = this.#clock.now()
    try {
      await renew()
    } catch (error) {
      if (isSignalboxError(error, 'lease_lost') && !this.#isOver) {
        this.#isRefused = true
        this.#lose()
      }
      throw error
    }
    this.#lostAt = Math.max(this.#lostAt, sentAt + this.#parts.leaseMs)
    this.#watchLoss()
  }

  /** Keeps the lease no longer; the signal does not abort any more. */
  stop(): void {
    this.#isOver = true
    this.#clock.clearTimeout(this.#renewTimer)
    this.#clock.clearTimeout(this.#lossTimer)
  }

  #renewLater(ms: number): void {
    this.#renewTimer = this.#clock.setTimeout(async () => {
      // A renewal that failed is tried again soon; the loss has a timer of its own.
      const isRenewed = await this.renew().then(
        () => true,
        () => false,
      )
      if (!this.#isOver) this.#renewLater(this.#parts.leaseMs / (isRenewed ? 3 : 10))
    }, ms)
  }

  #watchLoss(): void {
    this.#clock.clearTimeout(this.#lossTimer)
    if (this.#isOver) return
    const leftMs = this.#lostAt - this.#clock.now()
    if (leftMs <= 0) this.#lose()
    else this.#lossTimer = this.#clock.setTimeout(() => this.#watchLoss(), leftMs)
  }

  #lose(): void {
    this.stop()
    this.#loss.abort(this.#parts.lost())
  }
}
