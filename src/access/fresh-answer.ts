import type { Clock } from '../core/clock.ts'
import { within } from '../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'

export interface FreshOptions {
  readonly clock: Clock
  /** The most age of an answer, counted from its request. */
  readonly maxAgeMs: number
  /** The time limit of the store. */
  readonly deadlineMs: number
}

/**
 * A fact of the store, which is read at most every `maxAgeMs`. Callers during a read share it. If the read fails, all of
 * them get `store_unavailable`: an older answer could admit a revoked token.
 */
export class Fresh<Value> {
  readonly #read: () => Promise<Value>
  readonly #options: FreshOptions
  #value: Value | undefined
  #askedAt = Number.NEGATIVE_INFINITY
  #reading: Promise<Value> | undefined

  constructor(read: () => Promise<Value>, options: FreshOptions) {
    this.#read = read
    this.#options = options
  }

  /** Returns a fresh answer synchronously, so that most requests need no turn of the event loop. */
  get(): Value | Promise<Value> {
    if (this.#options.clock.now() - this.#askedAt < this.#options.maxAgeMs) return this.#value as Value
    this.#reading ??= this.#begin()
    return this.#reading
  }

  /** Later callers do not get an answer that was requested before this call. */
  forget(): void {
    this.#askedAt = Number.NEGATIVE_INFINITY
    this.#value = undefined
    this.#reading = undefined
  }

  #begin(): Promise<Value> {
    const askedAt = this.#options.clock.now()
    const reading: Promise<Value> = inTime(this.#read, this.#options).then(
      (value) => {
        if (this.#reading === reading) {
          this.#reading = undefined
          this.#value = value
          this.#askedAt = askedAt
        }
        return value
      },
      (error: unknown) => {
        if (this.#reading === reading) this.#reading = undefined
        throw toStoreError(error)
      },
    )
    return reading
  }
}

/** Returns the result of `read`. Throws `store_unavailable` after the deadline. */
export async function inTime<Value>(
  read: () => Promise<Value>,
  { clock, deadlineMs }: Pick<FreshOptions, 'clock' | 'deadlineMs'>,
): Promise<Value> {
  const late = () => {
    const message = `Token lookup timed out after ${deadlineMs} ms. Try again a little later.`
    throw new SignalboxError('store_unavailable', message)
  }
  return within(deadlineMs, read(), late, clock)
}

/** The error of the store, with a message that reveals nothing about it. */
export function toStoreError(error: unknown): unknown {
  if (isSignalboxError(error)) return error
  return new SignalboxError('store_unavailable', 'Token lookup failed. Try again a little later.', {
    cause: error,
  })
}
