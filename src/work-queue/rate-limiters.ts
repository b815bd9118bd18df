import { type Clock, systemClock } from '../core/clock.ts'
import { consume } from './consume.ts'
import { DelayingQueue } from './delaying-queue.ts'
import { KeyMap } from './key-map.ts'
import {
  type AddOptions,
  type DelayingQueueOptions,
  priorityOf,
  type RunOptions,
  resolveRunOptions,
} from './options.ts'

/** How long a failing item waits before it is tried again. */

/** Queues pass `key(item)` as the second argument, so that limiters count by the queue's identity. */
export interface RateLimiter<T> {
  /** The wait in milliseconds; counts a failure. Infinity: never. */
  when(item: T, key?: unknown): number
  /** The item succeeded, or is given up: its failures no longer count. */
  forget(item: T, key?: unknown): void
  /** How often the item has failed since it was last forgotten. */
  numRequeues(item: T, key?: unknown): number
}

/** Failures by key. With `maxItems` it keeps those that failed most recently. */
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

  /** Counts one more; answers how many there were before. */
  add(key: unknown): number {
    const before = this.count(key)
    const isBounded = this.#maxItems !== Number.POSITIVE_INFINITY
    // Entered anew, so that the one that failed longest ago comes first.
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

/** `base * 2^failures`, up to `max`, per item; with `jitter`, up to that share less. */
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
    // Zero times an overflowed power would be NaN; client-go turns it into a hot loop.
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

/** A token bucket that all items share. It goes into debt: each wait is booked behind the ones before it. */
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
    // Without a burst, or with no rate to pay a debt from, the wait would never end: nothing is booked.
    const payable = this.#burst > 0 && (this.#perSecond > 0 || this.#tokens >= 1)
    if (!payable) return Number.POSITIVE_INFINITY
    this.#tokens -= 1
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1_000
  }

  forget(_item: T, _key?: unknown): void {}

  numRequeues(_item: T, _key?: unknown): number {
    return 0
  }

  /** A clock that went backwards adds nothing, and counting goes on from where it is now. */
  #refill(): void {
    const now = this.#clock.now()
    const passedMs = Math.max(0, now - this.#filledAt)
    this.#filledAt = now
    this.#tokens = Math.min(this.#burst, this.#tokens + (passedMs / 1_000) * this.#perSecond)
  }
}

/** Asks every limiter; the longest wait and the highest count stand. */
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

/** Another limiter's wait, cut off at `maxDelay`. */
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

/** The rate limiting queue: a failing item comes back after a wait that its limiter decides. */

export interface RateLimitingQueueOptions<T> extends DelayingQueueOptions<T> {
  /** @default defaultControllerRateLimiter, on the queue's clock */
  readonly rateLimiter?: RateLimiter<T> | undefined
}

/** client-go's rate limiting queue. */
export class RateLimitingQueue<T> extends DelayingQueue<T> {
  readonly rateLimiter: RateLimiter<T>

  constructor(options: RateLimitingQueueOptions<T> = {}) {
    super(options)
    this.rateLimiter = options.rateLimiter ?? defaultControllerRateLimiter(options.clock)
  }

  /** Adds an item after the wait its limiter asks for, counting a failure. False as for `addAfter`. */
  addRateLimited(item: T, options: AddOptions = {}): boolean {
    const priority = priorityOf(options)
    // Asked only now: what is refused must not count as a failure.
    if (this.shuttingDown) return false
    return this.addAfter(item, this.rateLimiter.when(item, this.keyOf(item)), { priority })
  }

  /** Clears an item's failures. It takes back no pending add and is no substitute for `done`. */
  forget(item: T): void {
    this.rateLimiter.forget(item, this.keyOf(item))
  }

  /** How often an item has failed since it was last forgotten. */
  numRequeues(item: T): number {
    return this.rateLimiter.numRequeues(item, this.keyOf(item))
  }

  /** As on any queue, and: success forgets, failure tries again up to `maxRetries` times. */
  override async run(handler: (item: T) => unknown, options: RunOptions<T> = {}): Promise<void> {
    const resolved = resolveRunOptions(options)
    await consume(this, handler, resolved, {
      succeeded: ({ item }) => this.forget(item),
      failed: ({ item, priority }) => {
        if (this.numRequeues(item) < resolved.maxRetries) this.addRateLimited(item, { priority })
        else this.forget(item)
      },
    })
  }
}
