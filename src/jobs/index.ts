/** Jobs that commit with your data: leased, fenced, retried, kept. */

export type { CallerTransaction } from '../core/caller-transaction.ts'
export type { AddArguments, AddTarget } from './api/add-arguments.ts'
export {
  type AddOptions,
  type ClaimOptions,
  givenId,
  isReserved,
  type JobToAdd,
  type ListOptions,
} from './api/add-options.ts'
export { createJobs } from './api/create-jobs.ts'
export {
  type AnyDefinition,
  type DefineOptions,
  defineJob,
  type JobDefinition,
} from './api/define-job.ts'
export { createDrivenJobs, type DrivenEnd, type DrivenJobs, type DrivenRun } from './api/driven-jobs.ts'
export type {
  AckOptions,
  AddInTransaction,
  Ended,
  Held,
  InTransaction,
  Jobs,
  NackOptions,
} from './api/jobs-api.ts'
export type {
  SchemaInput,
  SchemaIssue,
  SchemaOutput,
  SchemaResult,
  StandardSchema,
} from './api/standard-schema.ts'
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
export type { AfterOptions, JobLock, OnFailure } from './dependencies/dependency.ts'
export { createDependencyResolver, type DependencyResolverParts } from './dependencies/dependency-resolver.ts'
export type * from './dependencies/dependency-store.ts'
export type { JobLocks, LockAsk } from './dependencies/job-locks.ts'
export { type AesSealerOptions, createAesSealer } from './encryption/aes-sealer.ts'
export { openShown } from './encryption/open-sealed.ts'
export { SealedJobStore } from './encryption/sealed-job-store.ts'
export { isSealed, type SealedView, sealedFor } from './encryption/sealed-text.ts'
export {
  type JobsOptions,
  resolveSealer,
  type SealContext,
  type SealedPart,
  type Sealer,
} from './encryption/sealer.ts'
export { ForwardingJobStore } from './forwarding-job-store.ts'
export * from './job.ts'
export * from './job-store.ts'
export { cancelTopic, type JobsNotifier, type JobsParts, queueTopic } from './jobs-parts.ts'
export type { JobLogLine, LogsOptions, NoteOptions } from './logs/job-logs.ts'
export type {
  LogLevel,
  LogLine,
  LogQuery,
  LogStore,
  LogUpdate,
  NewLogLine,
  ProgressRecord,
} from './logs/log-store.ts'
export type { AttemptLogUpdate, LogKeeper } from './logs/log-writer.ts'
export type { JobProgress, ProgressUpdate } from './logs/progress.ts'
export type { Limit, LimitOptions, QueueLimits, Rate } from './queue-limits.ts'
export type {
  CatchUp,
  CronOptions,
  RateOptions,
  Schedule,
  ScheduledJob,
  ScheduleOptions,
} from './schedules/schedule.ts'
export { checkSchedule } from './schedules/schedule-document.ts'
export { createFiring, type FiringParts } from './schedules/schedule-runner.ts'
export type * from './schedules/schedule-store.ts'
export type { ScheduleListOptions, Schedules } from './schedules/schedules.ts'
export { formatSearch } from './search/format-search.ts'
export { parseSearch } from './search/parse-search.ts'
export type { SearchPage } from './search/search.ts'
export type { SearchTerm } from './search/search-term.ts'
export { createTelemetry, type JobsTelemetry, type RunOutcome, type RunSpan } from './telemetry/telemetry.ts'
export { loadTelemetryApi, type TelemetryApi } from './telemetry/telemetry-api.ts'
export { createUpkeep } from './upkeep.ts'
export { Completer } from './worker/completer.ts'
export type { HandlerJob } from './worker/handler-job.ts'
export type { Worker } from './worker/worker.ts'
export type { WorkerCounts, WorkerEvents } from './worker/worker-events.ts'
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
