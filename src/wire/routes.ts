import * as attempts from './attempts.ts'
import * as audit from './audit.ts'
import * as bulk from './bulk.ts'
import * as contention from './contention.ts'
import * as jobacts from './jobacts.ts'
import * as jobs from './jobs.ts'
import * as locks from './locks.ts'
import * as monitor from './monitor.ts'
import * as nodes from './nodes.ts'
import * as notes from './notes.ts'
import * as once from './once.ts'
import * as overview from './overview.ts'
import * as queues from './queues.ts'
import type { Route } from './route.ts'
import * as schedules from './schedules.ts'
import * as subscriptions from './subscriptions.ts'
import * as system from './system.ts'
import * as tasks from './tasks.ts'
import * as tokens from './tokens.ts'

/** Every route there is. */
export const routes: readonly Route[] = [
  system.livez,
  system.readyz,
  system.metrics,
  system.openapi,
  system.events,
  overview.whoAmI,
  overview.getOverview,
  jobs.addJobs,
  jobs.listJobs,
  jobs.claimJobs,
  attempts.checkHeld,
  queues.jobEvents,
  jobacts.retryDeadJobs,
  jobacts.pruneJobs,
  jobacts.removeJobs,
  bulk.bulkJobs,
  bulk.listBulkOperations,
  bulk.getBulkOperation,
  bulk.cancelBulkOperation,
  jobs.getJob,
  attempts.ackJob,
  attempts.nackJob,
  attempts.renewJob,
  jobacts.cancelJob,
  jobacts.retryJob,
  notes.noteJob,
  notes.jobLines,
  queues.listQueues,
  queues.pauseQueue,
  queues.resumeQueue,
  queues.limitQueue,
  queues.unlimitQueue,
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
  tasks.submitTask,
  tasks.listTasks,
  tasks.getTask,
  tasks.taskEvents,
  tasks.cancelTask,
  tasks.explainTask,
  nodes.nodeInfo,
  nodes.listNodes,
  nodes.drainNode,
  nodes.cordonNode,
  nodes.listPools,
  nodes.definePool,
  nodes.removePool,
  tokens.listTokens,
  tokens.createToken,
  tokens.revokeToken,
  audit.listAudit,
  contention.getContention,
]
