/** Jobs that commit with your data: leased, fenced, retried, kept. */

export type { CallerTransaction } from '../core/caller-transaction.ts'
export type {
  FleetWorker,
  FleetWorkerState,
  FoundFleetWorker,
  ListWorkersOptions,
  RunningJob,
  StopWorkerOptions,
  WantedMode,
  WorkersPage,
  WorkerVerbs,
  WorkerVia,
} from '../fleet/workers/index.ts'
export {
  type AddOptions,
  givenId,
  isReserved,
  type JobToAdd,
} from './api/add-options.ts'
export { createJobs } from './api/create-jobs.ts'
export {
  type AnyDefinition,
  type DefineOptions,
  defineJob,
  type JobDefinition,
} from './api/define-job.ts'
export { createDrivenJobs, type DrivenEnd, type DrivenJobs, type DrivenRun } from './api/driven-jobs.ts'
export type { ClaimOptions } from './api/held-jobs.ts'
export type {
  AckOptions,
  AddArguments,
  AddInTransaction,
  AddTarget,
  Ended,
  Held,
  InTransaction,
  Jobs,
  NackOptions,
} from './api/jobs-api.ts'
export { cancelTopic, type JobsNotifier, type JobsParts, queueTopic } from './api/jobs-api.ts'
export type {
  SchemaInput,
  SchemaIssue,
  SchemaOutput,
  SchemaResult,
  StandardSchema,
} from './api/schema-check.ts'
export type { BlockedInterval, JobAttempt } from './attempts/attempt-reads.ts'
export {
  countSome,
  type ErrorGroup,
  type ErrorGroupOptions,
  type ErrorGroupPage,
  type ErrorGroupVerbs,
} from './attempts/attempt-reads.ts'
export type * from './attempts/attempt-store.ts'
export { fingerprintError } from './attempts/error-fingerprint.ts'
export {
  type BulkAction,
  type BulkCount,
  type BulkCounts,
  type BulkOperation,
  type BulkOptions,
  type BulkVerbs,
  bulkActions,
  bulkQueue,
} from './bulk/bulk-operations.ts'
export { type BulkWork, createBulkWork } from './bulk/bulk-worker.ts'
export type { AfterOptions, JobLock, OnFailure } from './dependencies/dependencies.ts'
export { createDependencyResolver, type DependencyResolverParts } from './dependencies/dependency-resolver.ts'
export type * from './dependencies/dependency-store.ts'
export type { JobLocks } from './dependencies/job-locks.ts'
export { createSealedJobStore } from './encryption/sealed-job-store.ts'
export { isSealed, openShown, type SealedView, sealedFor } from './encryption/sealed-text.ts'
export {
  type AesSealerOptions,
  createAesSealer,
  type SealContext,
  type SealedPart,
  type Sealer,
} from './encryption/sealer.ts'
export * from './job.ts'
export { foldFacts, type JobFacts, noFacts, parseMeta } from './job-facts.ts'
export * from './job-store.ts'
export {
  type JobsOptions,
  jobsOptionKeys,
  type ResolvedJobsOptions,
  resolveJobsOptions,
} from './jobs-options.ts'
export type { JobLogLine, JobProgress, LogsOptions, NoteOptions, ProgressUpdate } from './logs/job-logs.ts'
export type {
  LogLevel,
  LogLine,
  LogQuery,
  LogStore,
  LogUpdate,
  NewLogLine,
  ProgressRecord,
} from './logs/log-store.ts'
export type { AttemptLogStore, AttemptLogUpdate } from './logs/log-writer.ts'
export type { Limit, LimitOptions, QueueLimits, Rate } from './queue-limits.ts'
export { checkSchedule } from './schedules/schedule-document.ts'
export { createFiring, type FiringParts } from './schedules/schedule-runner.ts'
export type * from './schedules/schedule-store.ts'
export type {
  CatchUp,
  CronOptions,
  RateOptions,
  Schedule,
  ScheduledJob,
  ScheduleListOptions,
  ScheduleOptions,
  Schedules,
} from './schedules/schedules.ts'
export type { ListOptions } from './search/list-jobs.ts'
export type { SearchPage } from './search/scan-jobs.ts'
export type { SearchTerm } from './search/search-terms.ts'
export { formatSearch, parseSearch } from './search/search-terms.ts'
export type { JobActivity, StartedJob } from './telemetry/job-activity.ts'
export {
  createTelemetry,
  type JobsTelemetry,
  loadTelemetryApi,
  type RunOutcome,
  type RunSpan,
  type TelemetryApi,
} from './telemetry/telemetry.ts'
export { createUpkeep } from './upkeep.ts'
export type { EndedJob, WaitedJob, WaitOptions } from './waiting/job-waits.ts'
export { type EndedStates, isFinal, JobWaits, type LookAtJobs, maxWaitedIds } from './waiting/job-waits.ts'
export { Completer } from './worker/completer.ts'
export type { HandlerJob } from './worker/handler-job.ts'
export { findCancelled, renewLeases } from './worker/lease-renewer.ts'
export type { Worker } from './worker/worker.ts'
export type {
  BatchFunction,
  BatchSpec,
  HandledJob,
  Handler,
  HandlerContext,
  HandlerFunction,
  HandlerSpec,
  Handlers,
  MisplacedHandledJob,
  WorkerOptions,
} from './worker/worker-options.ts'
export type { WorkerCounts, WorkerEvents } from './worker/worker-tally.ts'
