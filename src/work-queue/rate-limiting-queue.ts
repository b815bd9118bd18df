/** The rate limiting queue: a failing item comes back after a wait that its limiter decides. */
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
