/** Locks that form a fair queue: leased, fenced, and they know success from failure. */

export {
  type Held,
  type HeldEnd,
  type HoldOptions,
  holdLock,
  type LockCalls,
  type NestedHoldOptions,
} from './held-lock.ts'
export { Waits } from './local-waits.ts'
export * from './lock.ts'
export * from './lock-store.ts'
export type { LocksNotifier } from './lock-topics.ts'
export {
  createLocks,
  type LockSummary,
  type Locks,
  type LocksParts,
  type ReleaseOptions,
  type RenewOptions,
} from './locks.ts'
export { createLocksForJobs, type JobAsk, type LocksForJobs } from './locks-for-jobs.ts'
export {
  type ListLocksOptions,
  type LocksOptions,
  locksDefaults,
  resolveConflicts,
  resolveLocksOptions,
} from './locks-options.ts'
export { type FlightOptions, runSingleFlight } from './single-flight.ts'
export { type SqlFence, type SqlFenceOptions, type SqlFenceTable, sqlFence } from './sql-fence.ts'
export type { WatchOptions } from './watch-lock.ts'
