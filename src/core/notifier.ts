import { type Clock, systemClock } from './clock.ts'
import { SignalboxError } from './errors.ts'
import { show } from './options.ts'

/**
 * Wakes waiters without news. A wake-up says "look again", never what happened, so wake-ups may be merged, repeated or
 * lost without harm: whoever wakes asks the store, and whoever hears nothing asks after its time-out.
 *
 * A wake-up wakes everyone who waits. With nobody waiting it is remembered once, for the next one who does; that closes
 * the gap between "I found nothing" and "I wait", in which a wake-up would otherwise be lost.
 */
export interface Notifier {
  /** Wakes all who wait now, or else the next one who will. */
  wake(): void
  /** Waits for a wake-up, until `timeoutMs` at most. Rejects with the signal's reason when it aborts. */
  wait(options?: NotifierWaitOptions): Promise<'woken' | 'timeout'>
}

/** How to wait for a notifier. */
export interface NotifierWaitOptions {
  /** The longest wait. @default no limit */
  readonly timeoutMs?: number
  /** Ends the wait. An aborted wait takes no wake-up with it. */
  readonly signal?: AbortSignal
  /** The clock for `timeoutMs`. @default systemClock */
  readonly clock?: Clock
}

/** The longest delay a timer takes; beyond it, timers fire at once. An early wake-up is harmless here. */
const maxTimerMs = 2 ** 31 - 1

/** Makes a notifier for one process. */
export function createNotifier(): Notifier {
  return new LocalNotifier()
}

class LocalNotifier implements Notifier {
  /** Never both: a remembered wake-up and a waiter. */
  #wakeUp = false
  readonly #waiters = new Set<() => void>()

  wake(): void {
    if (this.#waiters.size === 0) {
      this.#wakeUp = true
      return
    }
    // Each waiter leaves the set as it wakes, and none can join before this loop ends.
    for (const wake of this.#waiters) wake()
  }

  wait(options: NotifierWaitOptions = {}): Promise<'woken' | 'timeout'> {
    const { timeoutMs = Number.POSITIVE_INFINITY, signal, clock = systemClock } = options
    return new Promise((resolve, reject) => {
      if (!(timeoutMs >= 0)) throw badTimeout(timeoutMs)
      if (signal?.aborted) return reject(signal.reason)
      if (this.#wakeUp) {
        this.#wakeUp = false
        return resolve('woken')
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
        resolve('woken')
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
