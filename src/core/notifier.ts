import { type Clock, systemClock } from './clock.ts'
import { SignalboxError } from './errors.ts'
import { show } from './options.ts'

/**
 * A wake-up without the news. A ring says "look again", never what happened, so rings may be merged, repeated or
 * lost without harm: whoever wakes asks the store, and whoever hears nothing asks after its time-out.
 *
 * A ring wakes everyone who waits. With nobody waiting it is remembered once, for the next one who does; that closes
 * the gap between "I found nothing" and "I wait", in which a ring would otherwise be lost.
 */
export interface Bell {
  /** Wakes all who wait now, or else the next one who will. */
  ring(): void
  /** Waits for a ring, until `timeoutMs` at most. Rejects with the signal's reason when it aborts. */
  wait(options?: BellWaitOptions): Promise<'rung' | 'timeout'>
}

/** How to wait for a bell. */
export interface BellWaitOptions {
  /** The longest wait. @default no limit */
  readonly timeoutMs?: number
  /** Ends the wait. An aborted wait takes no ring with it. */
  readonly signal?: AbortSignal
  /** The clock for `timeoutMs`. @default systemClock */
  readonly clock?: Clock
}

/** The longest delay a timer takes; beyond it, timers fire at once. An early wake-up is harmless here. */
const maxTimerMs = 2 ** 31 - 1

/** Makes a bell for one process. */
export function createBell(): Bell {
  return new LocalBell()
}

class LocalBell implements Bell {
  /** Never both: a remembered ring and somebody waiting. */
  #rung = false
  readonly #waiters = new Set<() => void>()

  ring(): void {
    if (this.#waiters.size === 0) {
      this.#rung = true
      return
    }
    // Each waiter leaves the set as it wakes, and none can join before this loop ends.
    for (const wake of this.#waiters) wake()
  }

  wait(options: BellWaitOptions = {}): Promise<'rung' | 'timeout'> {
    const { timeoutMs = Number.POSITIVE_INFINITY, signal, clock = systemClock } = options
    return new Promise((resolve, reject) => {
      if (!(timeoutMs >= 0)) throw badTimeout(timeoutMs)
      if (signal?.aborted) return reject(signal.reason)
      if (this.#rung) {
        this.#rung = false
        return resolve('rung')
      }
      if (timeoutMs === 0) return resolve('timeout')

      let timer: unknown
      const leave = () => {
        this.#waiters.delete(wake)
        if (timer !== undefined) clock.clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
      }
      const wake = () => {
        leave()
        resolve('rung')
      }
      const abort = () => {
        leave()
        reject(signal!.reason)
      }
      const expire = () => {
        leave()
        resolve('timeout')
      }
      this.#waiters.add(wake)
      signal?.addEventListener('abort', abort)
      if (timeoutMs < Number.POSITIVE_INFINITY)
        timer = clock.setTimeout(expire, Math.min(timeoutMs, maxTimerMs))
    })
  }
}

function badTimeout(value: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `timeoutMs must be 0 or more milliseconds, not ${show(value)}.`,
  )
}
