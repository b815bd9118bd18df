/** Speaks to a Signalbox server, from Node or a browser: calls typed by their routes, and streams that reconnect. */
export type { Duration } from '../../core/duration.ts'
export { type ErrorCode, isSignalboxError, SignalboxError } from '../../core/errors.ts'
export { jobStates } from '../../core/job-states.ts'
// Routes, for `client.call` and `client.stream`.
export {
  ackJob,
  acquireLock,
  addJobs,
  bulkJobs,
  cancelBulkOperation,
  cancelJob,
  cancelTask,
  checkHeld,
  claimJobs,
  claimOnce,
  cordonNode,
  createSilence,
  createToken,
  definePool,
  doneOnce,
  drainNode,
  endSilence,
  events,
  evictLock,
  explainSubject,
  explainTask,
  failOnce,
  forgetOnce,
  getBulkOperation,
  getContention,
  getJob,
  getOverview,
  getSchedule,
  getTask,
  jobEvents,
  jobLogs,
  type LimitQueueBody,
  leaveLock,
  limitQueue,
  listAudit,
  listBulkOperations,
  listDecisions,
  listGuards,
  listJobs,
  listLocks,
  listNodes,
  listNotifications,
  listPools,
  listQueues,
  listSchedules,
  listSilences,
  listSubjects,
  listSubscriptions,
  listTasks,
  listTokens,
  livez,
  lockEvents,
  lockState,
  metrics,
  nackJob,
  nodeInfo,
  noteJob,
  onceStats,
  openapi,
  pauseQueue,
  pauseSchedule,
  pruneJobs,
  type QueueLimited,
  type Route,
  readyz,
  releaseLock,
  removeJobs,
  removePool,
  removeSchedule,
  renewJob,
  renewLock,
  renewOnce,
  replayNotification,
  reportChanges,
  resumeQueue,
  resumeSchedule,
  retryDeadJobs,
  retryJob,
  revokeToken,
  runSchedule,
  type Shape,
  type ShapeOf,
  seenOnce,
  setSchedule,
  submitTask,
  subscribe,
  taskEvents,
  testChannel,
  unlimitQueue,
  unsubscribe,
  wakeQueue,
  whoAmI,
} from '../contract/index.ts'
export type { AuditClient } from './audit.ts'
export type { BulkClient, WireBulkCount, WireBulkOperation } from './bulk.ts'
export { type CallArguments, type CallInput, type CallOptions, JsonText } from './call.ts'
export { type Client, createClient } from './client.ts'
export type { ClientOptions, FetchFunction } from './client-options.ts'
export type { ContentionClient } from './contention.ts'
export type {
  DispatchClient,
  WatchTaskOptions,
  WireFoundTask,
  WireNode,
  WireTask,
  WireTaskEvent,
} from './dispatch.ts'
export type {
  JobsClient,
  WireAdded,
  WireClaimedJob,
  WireFoundJob,
  WireHeld,
  WireJob,
  WireQueueStats,
  WireQueues,
} from './jobs.ts'
export type { LocksClient, WatchLockOptions, WireLockEvent } from './locks.ts'
export type { MonitorClient } from './monitor.ts'
export { connectNode } from './node/connect-node.ts'
export type { NodeConnection, NodeConnectionEvents } from './node/node-connection.ts'
export type {
  ConnectNodeOptions,
  NodeService,
  NodeTask,
  NodeTaskContext,
  PlatformSocket,
  TaskHandler,
  WebSocketMaker,
} from './node/node-options.ts'
export type { NodeTaskEvent } from './node/node-tasks.ts'
export type { OnceClient, WireClaimed } from './once.ts'
export type { OverviewClient, WireMe, WireOverview } from './overview.ts'
export type { SchedulesClient, WireSchedule } from './schedules.ts'
export type { StreamOptions } from './stream.ts'
export type { StreamCallbacks, StreamEvent } from './stream-connection.ts'
export type { TokensClient } from './tokens.ts'
