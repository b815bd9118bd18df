import type { Route } from './route.ts'
import * as attempts from './routes/attempts.ts'
import * as audit from './routes/audit.ts'
import * as bulk from './routes/bulk.ts'
import * as jobacts from './routes/job-acts.ts'
import * as jobs from './routes/jobs.ts'
import * as locks from './routes/locks.ts'
import * as notes from './routes/logs.ts'
import * as monitor from './routes/monitor.ts'
import * as nodes from './routes/nodes.ts'
import * as once from './routes/once.ts'
import * as contention from './routes/overview.ts'
import * as overview from './routes/overview.ts'
import * as queues from './routes/queues.ts'
import * as schedules from './routes/schedules.ts'
import * as subscriptions from './routes/subscriptions.ts'
import * as system from './routes/system.ts'
import * as tasks from './routes/tasks.ts'
import * as tokens from './routes/tokens.ts'

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
  notes.jobLogs,
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
