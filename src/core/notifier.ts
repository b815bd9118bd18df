import { type Clock, systemClock } from './clock.ts'
import { invalidArgument, type SignalboxError } from './errors.ts'
import { show } from './options.ts'

/**
 * Wakes waiters. A wake-up says "look again", never what happened, so wake-ups may be merged, repeated or lost without harm:
 * a waiter asks the store when it wakes, and also after its time-out.
 *
 * A wake-up wakes all waiters. Without waiters it is remembered once, for the next waiter; otherwise a wake-up between "I
 * found nothing" and "I wait" would be lost.
 */
export interface Notifier {
  /** Wakes all waiters, or else the next one. */
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

/** Creates a notifier for one process. */
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
  return invalidArgument(`timeoutMs must be 0 or more milliseconds, not ${show(value)}.`)
}

/**
 * Wakes at instants that this process knows of: a retry after its back-off, a job with a delay. The next poll finds what is
 * missed here, so the number of instants is bounded.
 */
export interface Alarm {
  set(inMs: number): void
  clear(): void
}

const maxInstants = 1_000
/** The store's clock has whole milliseconds, so an early wake-up would find nothing. */
const slackMs = 2

export function createAlarm(wake: () => void, onSpent: () => void = () => undefined): Alarm {
  let instants: number[] = []
  let timer: NodeJS.Timeout | undefined
  let timerAt = Number.POSITIVE_INFINITY

  function arm(at: number): void {
    if (at >= timerAt) return
    clearTimeout(timer)
    timerAt = at
    // Rounded up: a timer leaves out the fraction, and would fire before its instant.
    timer = setTimeout(fire, Math.max(1, Math.ceil(at - performance.now())))
    timer.unref()
  }

  function fire(): void {
    timerAt = Number.POSITIVE_INFINITY
    // A timer that is a little early is not set again: that would wake twice for one instant.
    const now = performance.now() + slackMs / 2
    instants = instants.filter((at) => at > now)
    wake()
    if (instants.length > 0) arm(Math.min(...instants))
    else onSpent()
  }

  return {
    set(inMs) {
      if (instants.length >= maxInstants) return
      const at = performance.now() + inMs + slackMs
      instants.push(at)
      arm(at)
    },
    clear() {
      clearTimeout(timer)
      timerAt = Number.POSITIVE_INFINITY
      instants = []
    },
  }
}
