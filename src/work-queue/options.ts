import type { Clock } from '../core/clock.ts'
import type { Metrics } from './queue-meter.ts'
import type { Queue } from './queue-stores.ts'

export interface QueueOptions<T> {
  /** Shown in `stats()`. @default '' */
  readonly name?: string | undefined
  /** The identity of an item. @default the item itself, compared as Map does (SameValueZero) */
  readonly key?: ((item: T) => unknown) | undefined
  /** The store that decides the order. @default new FifoQueue() */
  readonly queue?: Queue<T> | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
  /** The hooks for counts and times. `{}` adds the times to `stats()`. @default none */
  readonly metrics?: Metrics | undefined
}

export interface SignalOptions {
  /** Ends the wait; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

export interface AddOptions {
  /** Higher first. @default 0 */
  readonly priority?: number | undefined
}

export interface DelayingQueueOptions<T> extends QueueOptions<T> {
  /** An item is pending once, queued or waiting, and the earliest add wins. @default false */
  readonly coalesce?: boolean | undefined
  /** Waiting items do not keep the process alive. @default false */
  readonly unref?: boolean | undefined
}

export interface AddAfterOptions extends AddOptions {
  /** Replaces the due time, earlier or later. Otherwise the earliest due time counts. @default false */
  readonly replace?: boolean | undefined
}

export interface RunOptions<T> {
  /** How many items may be in flight at a time. @default 1 */
  readonly concurrency?: number | undefined
  /** Stops taking items; `run` resolves when the running handlers have ended. */
  readonly signal?: AbortSignal | undefined
  /** Called with each failure. On a queue that does not retry, `run` stops at a failure without it. */
  readonly onError?: ((error: unknown, item: T) => void) | undefined
  /** How often a failing item is tried again; rate limiting queues only. @default Infinity */
  readonly maxRetries?: number | undefined
}

export interface ResolvedRunOptions<T> {
  readonly concurrency: number
  readonly signal: AbortSignal | undefined
  readonly onError: ((error: unknown, item: T) => void) | undefined
  readonly maxRetries: number
}

export function resolveRunOptions<T>(options: RunOptions<T>): ResolvedRunOptions<T> {
  const { concurrency = 1, signal, onError, maxRetries = Number.POSITIVE_INFINITY } = options
  if (!(concurrency >= 1)) {
    throw new RangeError(`run: concurrency is ${concurrency}; it must be 1 or more.`)
  }
  if (!(maxRetries >= 0)) {
    throw new RangeError(`run: maxRetries is ${maxRetries}; it must be 0 or more, Infinity for no limit.`)
  }
  return { concurrency: Math.floor(concurrency), signal, onError, maxRetries }
}

export function priorityOf({ priority = 0 }: AddOptions): number {
  // NaN is neither above nor below another number, so it cannot be ordered.
  if (typeof priority !== 'number' || Number.isNaN(priority)) {
    throw new RangeError(`A priority is a number, higher first; got ${String(priority)}.`)
  }
  return priority
}
