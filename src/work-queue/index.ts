/** The in-process work queue of Kubernetes' client-go: fair, stingy, delaying, rate limiting. */
export { type Clock, systemClock } from '../core/clock.ts'
export { DelayingQueue } from './delaying-queue.ts'
export type {
  AddAfterOptions,
  AddOptions,
  DelayingQueueOptions,
  QueueOptions,
  RunOptions,
  SignalOptions,
} from './options.ts'
export { parallelizeUntil } from './parallelize.ts'
export type { Metrics, QueueStats } from './queue-meter.ts'
export { FairQueue, FifoQueue, type Queue } from './queue-stores.ts'
export {
  BucketRateLimiter,
  defaultControllerRateLimiter,
  defaultItemBasedRateLimiter,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  MaxOfRateLimiter,
  type RateLimiter,
  WithMaxWaitRateLimiter,
} from './rate-limiters.ts'
export { RateLimitingQueue, type RateLimitingQueueOptions } from './rate-limiting-queue.ts'
export type { Entry, NoWork, Work } from './turn.ts'
export { WorkQueue } from './work-queue.ts'
