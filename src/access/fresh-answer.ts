import type { Clock } from '../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'

export interface FreshOptions {
  readonly clock: Clock
  /** How old an answer may be, counted from when it was asked for. */
  readonly maxAgeMs: number
  /** How long the store may take to answer. */
  readonly deadlineMs: number
}

/**
 * A fact of the store that is read at most every `maxAgeMs`, however many ask. Whoever asks while it is being read
 * waits for that reading. When it cannot be read, all of them get `store_unavailable`: an old answer is never given
 * instead, because it may be the one that lets somebody in.
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

  /** At once when it is fresh, so that the usual request does not wait a turn. */
  get(): Value | Promise<Value> {
    if (this.#options.clock.now() - this.#askedAt < this.#options.maxAgeMs) return this.#value as Value
    this.#reading ??= this.#begin()
    return this.#reading
  }

  /** What was read before now, and what is being read, no longer counts for those who ask from now on. */
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

/** What `read` gives, or `store_unavailable` when it takes too long; what it says later is ignored. */
export async function inTime<Value>(
  read: () => Promise<Value>,
  { clock, deadlineMs }: Pick<FreshOptions, 'clock' | 'deadlineMs'>,
): Promise<Value> {
  const late = Promise.withResolvers<never>()
  const timer = clock.setTimeout(() => {
    const message = `The store did not say within ${deadlineMs} ms who may come in. Try again a little later.`
    late.reject(new SignalboxError('store_unavailable', message))
  }, deadlineMs)
  try {
    return await Promise.race([read(), late.promise])
  } finally {
    clock.clearTimeout(timer)
  }
}

/** What the store threw, as an error whose message says nothing of the store. */
export function asStoreTrouble(error: unknown): unknown {
  if (isSignalboxError(error)) return error
  return new SignalboxError(
    'store_unavailable',
    'The store could not say who may come in. Try again a little later.',
    { cause: error },
  )
}
