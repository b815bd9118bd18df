import * as jobs from './jobs.ts'
import * as locks from './locks.ts'
import * as queues from './queues.ts'
import type { Route } from './route.ts'
import * as system from './system.ts'
import * as tokens from './tokens.ts'

/** Every route there is. */
export const routes: readonly Route[] = [
  system.livez,
  system.readyz,
  system.metrics,
  system.openapi,
  system.events,
  jobs.addJobs,
  jobs.listJobs,
  jobs.claimJobs,
  jobs.checkHeld,
  queues.jobEvents,
  jobs.retryDeadJobs,
  jobs.pruneJobs,
  jobs.getJob,
  jobs.ackJob,
  jobs.nackJob,
  jobs.renewJob,
  jobs.cancelJob,
  jobs.retryJob,
  queues.listQueues,
  queues.pauseQueue,
  queues.resumeQueue,
  queues.wakeQueue,
  locks.acquireLock,
  locks.releaseLock,
  locks.renewLock,
  locks.leaveLock,
  locks.listLocks,
  locks.lockState,
  locks.lockEvents,
  locks.evictLock,
  tokens.listTokens,
  tokens.createToken,
  tokens.revokeToken,
]
