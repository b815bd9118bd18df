import type { Clock } from '../core/clock.ts'
import { within } from '../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'

export interface FreshOptions {
  readonly clock: Clock
  /** How old an answer may be, counted from when it was asked for. */
  readonly maxAgeMs: number
  /** How long the store may take to answer. */
  readonly deadlineMs: number
}

/**
 * A fact of the store that is read at most every `maxAgeMs`. Callers that come during a read share it. When the read fails,
 * all of them get `store_unavailable`: an old answer could let a revoked token in.
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

  /** Synchronous while it is fresh, so that most requests do not wait a turn. */
  get(): Value | Promise<Value> {
    if (this.#options.clock.now() - this.#askedAt < this.#options.maxAgeMs) return this.#value as Value
    this.#reading ??= this.#begin()
    return this.#reading
  }

  /** Later callers do not get what was read, or is being read, before this call. */
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
        throw asStoreTrouble(error)
      },
    )
    return reading
  }
}

/** The result of `read`; `store_unavailable` when it takes too long. */
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
export function asStoreTrouble(error: unknown): unknown {
  if (isSignalboxError(error)) return error
  return new SignalboxError('store_unavailable', 'Token lookup failed. Try again a little later.', {
    cause: error,
  })
}
