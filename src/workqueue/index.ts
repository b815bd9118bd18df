/** The in-process work queue of Kubernetes' client-go: fair, stingy, delaying, rate limiting. */
export { type Clock, systemClock } from '../core/clock.ts'
export { DelayingQueue } from './delays.ts'
export {
  BucketRateLimiter,
  defaultControllerRateLimiter,
  defaultItemBasedRateLimiter,
  ItemExponentialFailureRateLimiter,
  ItemFastSlowRateLimiter,
  MaxOfRateLimiter,
  type RateLimiter,
  WithMaxWaitRateLimiter,
} from './limiters.ts'
export { RateLimitingQueue, type RateLimitingQueueOptions } from './limits.ts'
export type { Metrics, QueueStats } from './meter.ts'
export type {
  AddAfterOptions,
  AddOptions,
  DelayingQueueOptions,
  QueueOptions,
  RunOptions,
  SignalOptions,
} from './options.ts'
export { parallelizeUntil } from './parallelize.ts'
export { FairQueue, FifoQueue, type Queue } from './stores.ts'
export type { Entry, NoWork, Work } from './turn.ts'
export { WorkQueue } from './workqueue.ts'
