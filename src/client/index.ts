/** Speaks to a Signalbox server, from Node or a browser: calls typed by their routes, and streams that reconnect. */
export { type ErrorCode, isSignalboxError, SignalboxError } from '../core/errors.ts'
// Routes, for `client.call` and `client.stream`.
export {
  ackJob,
  acquireLock,
  addJobs,
  cancelJob,
  checkHeld,
  claimJobs,
  createToken,
  events,
  evictLock,
  getJob,
  jobEvents,
  leaveLock,
  listJobs,
  listLocks,
  listQueues,
  listTokens,
  livez,
  lockEvents,
  lockState,
  metrics,
  nackJob,
  openapi,
  pauseQueue,
  pruneJobs,
  type Route,
  readyz,
  releaseLock,
  renewJob,
  renewLock,
  resumeQueue,
  retryDeadJobs,
  retryJob,
  revokeToken,
  type Shape,
  type ShapeOf,
  wakeQueue,
} from '../wire/index.ts'
export { type CallArguments, type CallInput, type CallOptions, JsonText } from './call.ts'
export { type Client, createClient } from './client.ts'
export type { StreamCallbacks, StreamEvent } from './connection.ts'
export type { JobsClient, WireAdded, WireClaimedJob, WireHeld, WireJob, WireQueueStats } from './jobs.ts'
export type { LocksClient, WatchLockOptions, WireLockEvent } from './locks.ts'
export type { ClientOptions, FetchFunction } from './options.ts'
export type { StreamOptions } from './stream.ts'
export type { TokensClient } from './tokens.ts'
