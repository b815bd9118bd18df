/** Locks that form a fair line: leased, fenced, and they know success from failure. */
export { type SqlFence, type SqlFenceOptions, type SqlFenceTable, sqlFence } from './fence.ts'
export { createFlight, type FlightOptions } from './flight.ts'
export {
  type Held,
  type HeldEnd,
  type HoldOptions,
  holdLock,
  type LocksPlace,
  type NestedHoldOptions,
} from './held.ts'
export { createLocksForJobs, type JobAsk, type LocksForJobs } from './joblocks.ts'
export * from './lock.ts'
export {
  createLocks,
  type LockSummary,
  type Locks,
  type LocksParts,
  type ReleaseOptions,
  type RenewOptions,
} from './locks.ts'
export {
  type ListLocksOptions,
  type LocksOptions,
  locksDefaults,
  resolveConflicts,
  resolveLocksOptions,
} from './options.ts'
export * from './store.ts'
export type { LocksBell } from './topics.ts'
export { Waits } from './waits.ts'
export type { WatchOptions } from './watch.ts'
