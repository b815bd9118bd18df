/** Promises that wait for the queue: getters in order, and callers that wait for a smaller size. */
import { KeyMap } from './key-map.ts'
import type { SignalOptions } from './options.ts'

/** One caller's wait. */
interface Wait<V> {
  /** Settles the promise and takes the listener off the signal. */
  readonly resolve: (value: V) => void
}

/** Creates the promise of a wait. Calls `enter` when the wait begins, and `leave` when its signal aborts it. */
function waitFor<V>(
  signal: AbortSignal | undefined,
  enter: (wait: Wait<V>) => void,
  leave: (wait: Wait<V>) => void,
): Promise<V> {
  if (signal?.aborted) return Promise.reject(signal.reason)
  return new Promise<V>((resolve, reject) => {
    if (signal === undefined) {
      enter({ resolve })
      return
    }
    const wait: Wait<V> = {
      resolve(value) {
        signal.removeEventListener('abort', onAbort)
        resolve(value)
      },
    }
    function onAbort(): void {
      leave(wait)
      reject(signal?.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    enter(wait)
  })
}

/** Waits, first come, first served. An abort of any wait costs no more than serving it. */
export class WaitList<V> {
  readonly #waits = new KeyMap<Wait<V>>()

  get isEmpty(): boolean {
    return this.#waits.size === 0
  }

  wait(signal: AbortSignal | undefined): Promise<V> {
    return waitFor<V>(
      signal,
      (wait) => this.#waits.enter(wait, wait),
      (wait) => this.#waits.delete(wait),
    )
  }

  /** Serves the first waiter; only while not empty. */
  serve(value: V): void {
    this.#waits.takeFirst()?.resolve(value)
  }
}

/** Callers that wait until a count is below their own limit. */
export class LimitWaits {
  readonly #limits = new Map<Wait<void>, number>()

  wait(limit: number, { signal }: SignalOptions): Promise<void> {
    return waitFor<void>(
      signal,
      (wait) => void this.#limits.set(wait, limit),
      (wait) => void this.#limits.delete(wait),
    )
  }

  /** Resolves the waits whose limit is above `count`. */
  update(count: number): void {
    if (this.#limits.size === 0) return
    for (const [wait, limit] of this.#limits) {
      if (count >= limit) continue
      this.#limits.delete(wait)
      wait.resolve()
    }
  }
}
