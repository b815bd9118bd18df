import { consume } from './consume.ts'
import { DelayingQueue } from './delaying-queue.ts'
import {
  type AddOptions,
  type DelayingQueueOptions,
  priorityOf,
  type RunOptions,
  resolveRunOptions,
} from './options.ts'
import { defaultControllerRateLimiter, type RateLimiter } from './rate-limiters.ts'

export interface RateLimitingQueueOptions<T> extends DelayingQueueOptions<T> {
  /** @default defaultControllerRateLimiter, on the queue's clock */
  readonly rateLimiter?: RateLimiter<T> | undefined
}

/** client-go's rate limiting queue: a failed item is added again after the wait of its limiter. */
export class RateLimitingQueue<T> extends DelayingQueue<T> {
  readonly rateLimiter: RateLimiter<T>

  constructor(options: RateLimitingQueueOptions<T> = {}) {
    super(options)
    this.rateLimiter = options.rateLimiter ?? defaultControllerRateLimiter(options.clock)
  }

  /** Counts a failure and adds the item after the wait of its limiter. False as for `addAfter`. */
  addRateLimited(item: T, options: AddOptions = {}): boolean {
    const priority = priorityOf(options)
    // The limiter is called after this check, because a refused add must not count as a failure.
    if (this.shuttingDown) return false
    return this.addAfter(item, this.rateLimiter.when(item, this.keyOf(item)), { priority })
  }

  /** Clears an item's failures. It does not cancel a pending add and does not replace `done`. */
  forget(item: T): void {
    this.rateLimiter.forget(item, this.keyOf(item))
  }

  /** How often an item has failed since it was last forgotten. */
  numRequeues(item: T): number {
    return this.rateLimiter.numRequeues(item, this.keyOf(item))
  }

  /** Runs the handler as on any queue. A success forgets the item; a failure is retried up to `maxRetries` times. */
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
