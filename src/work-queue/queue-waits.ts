/** Promises that wait for the queue: getters in their order, and callers who wait for a smaller size. */
import type { SignalOptions } from './options.ts'

/** One caller's wait, linked into a WaitList. */
interface Wait<V> {
  /** Settles the promise and takes the listener off the signal. */
  readonly resolve: (value: V) => void
  before: Wait<V> | undefined
  behind: Wait<V> | undefined
}

/** Makes the promise of a wait: `enter` when it begins, `leave` when its signal ends it first. */
function waitFor<V>(
  signal: AbortSignal | undefined,
  enter: (wait: Wait<V>) => void,
  leave: (wait: Wait<V>) => void,
): Promise<V> {
  if (signal?.aborted) return Promise.reject(signal.reason)
  return new Promise<V>((resolve, reject) => {
    if (signal === undefined) {
      enter({ resolve, before: undefined, behind: undefined })
      return
    }
    const wait: Wait<V> = {
      resolve(value) {
        signal.removeEventListener('abort', onAbort)
        resolve(value)
      },
      before: undefined,
      behind: undefined,
    }
    function onAbort(): void {
      leave(wait)
      reject(signal?.reason)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    enter(wait)
  })
}

/** Waits, first come first served. A wait that aborts in the middle costs no more than one that is served. */
export class WaitList<V> {
  #first: Wait<V> | undefined
  #last: Wait<V> | undefined

  get isEmpty(): boolean {
    return this.#first === undefined
  }

  wait(signal: AbortSignal | undefined): Promise<V> {
    return waitFor<V>(
      signal,
      (wait) => this.#enter(wait),
      (wait) => this.#leave(wait),
    )
  }

  /** Serves the first waiter; only while not empty. */
  serve(value: V): void {
    const wait = this.#first as Wait<V>
    this.#leave(wait)
    wait.resolve(value)
  }

  #enter(wait: Wait<V>): void {
    wait.before = this.#last
    if (this.#last) this.#last.behind = wait
    else this.#first = wait
    this.#last = wait
  }

  #leave(wait: Wait<V>): void {
    if (wait.before) wait.before.behind = wait.behind
    else this.#first = wait.behind
    if (wait.behind) wait.behind.before = wait.before
    else this.#last = wait.before
  }
}

/** Callers who wait until a count falls below the limit that each of them gave. */
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
