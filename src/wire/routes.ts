import * as audit from './audit.ts'
import * as bulk from './bulk.ts'
import * as contention from './contention.ts'
import * as dispatch from './dispatch.ts'
import * as jobremoval from './jobremoval.ts'
import * as jobs from './jobs.ts'
import * as locks from './locks.ts'
import * as monitor from './monitor.ts'
import * as notes from './notes.ts'
import * as once from './once.ts'
import * as queues from './queues.ts'
import type { Route } from './route.ts'
import * as schedules from './schedules.ts'
import * as subscriptions from './subscriptions.ts'
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
  jobremoval.removeJobs,
  bulk.bulkJobs,
  bulk.listBulkOperations,
  bulk.getBulkOperation,
  bulk.cancelBulkOperation,
  jobs.getJob,
  jobs.ackJob,
  jobs.nackJob,
  jobs.renewJob,
  jobs.cancelJob,
  jobs.retryJob,
  notes.noteJob,
  notes.jobLines,
  queues.listQueues,
  queues.pauseQueue,
  queues.resumeQueue,
  queues.wakeQueue,
  schedules.setSchedule,
  schedules.listSchedules,
  schedules.getSchedule,
  schedules.removeSchedule,
  schedules.pauseSchedule,
  schedules.resumeSchedule,
  schedules.runSchedule,
  locks.acquireLock,
  locks.releaseLock,
  locks.renewLock,
  locks.leaveLock,
  locks.listLocks,
  locks.lockState,
  locks.lockEvents,
  locks.evictLock,
  once.claimOnce,
  once.doneOnce,
  once.failOnce,
  once.renewOnce,
  once.forgetOnce,
  once.seenOnce,
  once.onceStats,
  once.listGuards,
  monitor.reportChanges,
  monitor.explainSubject,
  monitor.listDecisions,
  monitor.listNotifications,
  monitor.replayNotification,
  monitor.listSubjects,
  subscriptions.subscribe,
  subscriptions.listSubscriptions,
  subscriptions.unsubscribe,
  subscriptions.createSilence,
  subscriptions.listSilences,
  subscriptions.endSilence,
  subscriptions.testChannel,
  dispatch.submitTask,
  dispatch.listTasks,
  dispatch.getTask,
  dispatch.taskEvents,
  dispatch.cancelTask,
  dispatch.explainTask,
  dispatch.nodeInfo,
  dispatch.listNodes,
  dispatch.drainNode,
  dispatch.cordonNode,
  dispatch.listPools,
  dispatch.definePool,
  tokens.listTokens,
  tokens.createToken,
  tokens.revokeToken,
  audit.listAudit,
  contention.getContention,
]
