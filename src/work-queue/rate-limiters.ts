import { type Clock, systemClock } from '../core/clock.ts'
import { KeyMap } from './key-map.ts'

/** Rate limiters: they decide how long a failed item waits before its next try. */

/** Queues pass `key(item)` as the second argument, so that limiters count by the queue's identity. */
export interface RateLimiter<T> {
  /** Counts a failure and answers the wait in milliseconds. Infinity: never. */
  when(item: T, key?: unknown): number
  /** Forgets the failures of an item that succeeded or was given up. */
  forget(item: T, key?: unknown): void
  /** How often the item failed since it was last forgotten. */
  numRequeues(item: T, key?: unknown): number
}

/** Failures by key. With `maxItems` it keeps the most recent ones. */
class Failures {
  readonly #counts = new KeyMap<number>()
  readonly #maxItems: number

  constructor(maxItems: number) {
    if (!(maxItems >= 1)) throw new RangeError(`maxItems is ${maxItems}; it must be 1 or more.`)
    this.#maxItems = maxItems
  }

  count(key: unknown): number {
    return this.#counts.get(key) ?? 0
  }

  /** Counts one more failure and answers the count before. */
  add(key: unknown): number {
    const before = this.count(key)
    const isBounded = this.#maxItems !== Number.POSITIVE_INFINITY
    // Entered again, so that the key with the oldest failure comes first.
    if (isBounded && before > 0) this.#counts.delete(key)
    if (isBounded || before === 0) this.#counts.enter(key, before + 1)
    else this.#counts.set(key, before + 1)
    while (this.#counts.size > this.#maxItems) this.#counts.takeFirst()
    return before
  }

  forget(key: unknown): void {
    this.#counts.delete(key)
  }
}

/** Waits `base * 2^failures`, up to `max`, per item. `jitter` shortens the wait by up to that share. */
export class ItemExponentialFailureRateLimiter<T> implements RateLimiter<T> {
  readonly #baseDelay: number
  readonly #maxDelay: number
  readonly #jitter: number
  readonly #random: () => number
  readonly #failures: Failures

  constructor(
    baseDelay: number,
    maxDelay: number,
    options: {
      readonly jitter?: number | undefined
      readonly random?: (() => number) | undefined
      readonly maxItems?: number | undefined
    } = {},
  ) {
    const { jitter = 0, random = Math.random, maxItems = Number.POSITIVE_INFINITY } = options
    if (!(jitter >= 0 && jitter <= 1)) throw new RangeError(`jitter is ${jitter}; it must be from 0 to 1.`)
    this.#baseDelay = delay('baseDelay', baseDelay)
    this.#maxDelay = delay('maxDelay', maxDelay)
    this.#jitter = jitter
    this.#random = random
    this.#failures = new Failures(maxItems)
  }

  when(item: T, key: unknown = item): number {
    const failures = this.#failures.add(key)
    // Zero times an infinite power is NaN. In client-go it becomes a busy loop.
    if (this.#baseDelay === 0) return 0
    const ms = Math.min(this.#baseDelay * 2 ** failures, this.#maxDelay)
    return this.#jitter === 0 ? ms : ms * (1 - this.#jitter * this.#random())
  }

  forget(item: T, key: unknown = item): void {
    this.#failures.forget(key)
  }

  numRequeues(item: T, key: unknown = item): number {
    return this.#failures.count(key)
  }
}

/** A fast wait for the first failures of an item, a slow one for the rest. */
export class ItemFastSlowRateLimiter<T> implements RateLimiter<T> {
  readonly #fastDelay: number
  readonly #slowDelay: number
  readonly #maxFastAttempts: number
  readonly #failures: Failures

  constructor(
    fastDelay: number,
    slowDelay: number,
    maxFastAttempts: number,
    options: { readonly maxItems?: number | undefined } = {},
  ) {
    this.#fastDelay = delay('fastDelay', fastDelay)
    this.#slowDelay = delay('slowDelay', slowDelay)
    if (!(maxFastAttempts >= 0)) {
      throw new RangeError(`maxFastAttempts is ${maxFastAttempts}; it must be 0 or more.`)
    }
    this.#maxFastAttempts = maxFastAttempts
    this.#failures = new Failures(options.maxItems ?? Number.POSITIVE_INFINITY)
  }

  when(item: T, key: unknown = item): number {
    return this.#failures.add(key) < this.#maxFastAttempts ? this.#fastDelay : this.#slowDelay
  }

  forget(item: T, key: unknown = item): void {
    this.#failures.forget(key)
  }

  numRequeues(item: T, key: unknown = item): number {
    return this.#failures.count(key)
  }
}

/** A token bucket that all items share. Its tokens may become negative: each wait follows the waits before it. */
export class BucketRateLimiter<T> implements RateLimiter<T> {
  readonly #perSecond: number
  readonly #burst: number
  readonly #clock: Clock
  #tokens: number
  #filledAt: number

  constructor(perSecond: number, burst: number, options: { readonly clock?: Clock | undefined } = {}) {
    if (!(perSecond >= 0)) throw new RangeError(`perSecond is ${perSecond}; it must be 0 or more.`)
    if (!(burst >= 0)) throw new RangeError(`burst is ${burst}; it must be 0 or more.`)
    this.#perSecond = perSecond
    this.#burst = burst
    this.#clock = options.clock ?? systemClock
    this.#tokens = burst
    this.#filledAt = this.#clock.now()
  }

  when(_item: T, _key?: unknown): number {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return 0
    this.#refill()
    // Without a burst, or without a rate and tokens, the wait would never end, so no token is taken.
    const payable = this.#burst > 0 && (this.#perSecond > 0 || this.#tokens >= 1)
    if (!payable) return Number.POSITIVE_INFINITY
    this.#tokens -= 1
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1_000
  }

  forget(_item: T, _key?: unknown): void {}

  numRequeues(_item: T, _key?: unknown): number {
    return 0
  }

  /** Adds tokens for the passed time. If the clock went backwards, it adds none and counts from the present time. */
  #refill(): void {
    const now = this.#clock.now()
    const passedMs = Math.max(0, now - this.#filledAt)
    this.#filledAt = now
    this.#tokens = Math.min(this.#burst, this.#tokens + (passedMs / 1_000) * this.#perSecond)
  }
}

/** Combines limiters: the longest wait and the highest count apply. */
export class MaxOfRateLimiter<T> implements RateLimiter<T> {
  readonly #limiters: readonly RateLimiter<T>[]

  constructor(...limiters: RateLimiter<T>[]) {
    this.#limiters = limiters
  }

  when(item: T, key: unknown = item): number {
    return this.#limiters.reduce((longest, limiter) => Math.max(longest, limiter.when(item, key)), 0)
  }

  forget(item: T, key: unknown = item): void {
    for (const limiter of this.#limiters) limiter.forget(item, key)
  }

  numRequeues(item: T, key: unknown = item): number {
    return this.#limiters.reduce((most, limiter) => Math.max(most, limiter.numRequeues(item, key)), 0)
  }
}

/** Limits the wait of another limiter to `maxDelay`. */
export class WithMaxWaitRateLimiter<T> implements RateLimiter<T> {
  readonly #limiter: RateLimiter<T>
  readonly #maxDelay: number

  constructor(limiter: RateLimiter<T>, maxDelay: number) {
    this.#limiter = limiter
    this.#maxDelay = delay('maxDelay', maxDelay)
  }

  when(item: T, key: unknown = item): number {
    return Math.min(this.#limiter.when(item, key), this.#maxDelay)
  }

  forget(item: T, key: unknown = item): void {
    this.#limiter.forget(item, key)
  }

  numRequeues(item: T, key: unknown = item): number {
    return this.#limiter.numRequeues(item, key)
  }
}

/** 5 ms to 1000 s per item, and 10 a second with a burst of 100 over all. */
export function defaultControllerRateLimiter<T>(clock?: Clock): RateLimiter<T> {
  return new MaxOfRateLimiter<T>(
    new ItemExponentialFailureRateLimiter(5, 1_000_000),
    new BucketRateLimiter(10, 100, { clock }),
  )
}

/** 1 ms to 1000 s per item. */
export function defaultItemBasedRateLimiter<T>(): RateLimiter<T> {
  return new ItemExponentialFailureRateLimiter<T>(1, 1_000_000)
}

function delay(name: string, ms: number): number {
  if (!(ms >= 0)) throw new RangeError(`${name} is ${ms}; it must be 0 milliseconds or more.`)
  return ms
}
