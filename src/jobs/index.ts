/** Jobs that commit with your data: leased, fenced, retried, kept. */

export type { CallerTransaction } from '../core/caller-transaction.ts'
export type { AddArguments, AddTarget } from './addarguments.ts'
export {
  type BulkAction,
  type BulkCount,
  type BulkCounts,
  type BulkOperation,
  type BulkOptions,
  type BulkVerbs,
  bulkActions,
  bulkQueue,
} from './bulk.ts'
export { type BulkWork, createBulkWork } from './bulkwork.ts'
export {
  type AnyDefinition,
  type DefineOptions,
  defineJob,
  type JobDefinition,
} from './define.ts'
export { createDrivenJobs, type DrivenEnd, type DrivenJobs, type DrivenRun } from './driven.ts'
export { createFiring, type FiringParts } from './firing.ts'
export type { AfterOptions, JobLock, OnFailure } from './gate.ts'
export { createGatekeeper, type GatekeeperParts } from './gatekeeper.ts'
export type * from './gatestore.ts'
export type { HandlerJob } from './handlerjob.ts'
export * from './job.ts'
export type { JobLocks, LockAsk } from './joblocks.ts'
export { createJobs } from './jobs.ts'
export type { Limit, LimitOptions, QueueLimits, Rate } from './limits.ts'
export type { AttemptNote, NoteKeeper } from './notebook.ts'
export type { JobLine, LinesOptions, NoteOptions } from './notes.ts'
export type {
  LineLevel,
  LineQuery,
  LineRecord,
  NewLine,
  Note,
  NoteStore,
  ProgressRecord,
} from './notestore.ts'
export {
  type AddOptions,
  type ClaimOptions,
  givenId,
  isReserved,
  type JobToAdd,
  type ListOptions,
} from './options.ts'
export { cancelTopic, type JobsBell, type JobsParts, queueTopic } from './parts.ts'
export type { JobProgress, ProgressUpdate } from './progress.ts'
export type {
  CatchUp,
  CronOptions,
  RateOptions,
  Schedule,
  ScheduledJob,
  ScheduleOptions,
} from './schedule.ts'
export { checkSchedule } from './scheduledoc.ts'
export type { ScheduleListOptions, Schedules } from './schedules.ts'
export type * from './schedulestore.ts'
export { type AesSealerOptions, createAesSealer } from './sealaes.ts'
export { SealedJobStore } from './sealedstore.ts'
export { type JobsOptions, resolveSealer, type SealContext, type SealedPart, type Sealer } from './sealer.ts'
export { openShown } from './sealopen.ts'
export { isSealed, type SealedView, sealedFor } from './sealtext.ts'
export type { SearchPage } from './search.ts'
export { formatSearch } from './searchformat.ts'
export { parseSearch } from './searchparse.ts'
export type { SearchTerm } from './searchterm.ts'
export type {
  SchemaInput,
  SchemaIssue,
  SchemaOutput,
  SchemaResult,
  StandardSchema,
} from './standardschema.ts'
export * from './store.ts'
export { createTelemetry, type JobsTelemetry, type RunOutcome, type RunSpan } from './telemetry.ts'
export { loadTelemetryApi, type TelemetryApi } from './telemetryapi.ts'
export { createUpkeep } from './upkeep.ts'
export type { AckOptions, AddInTransaction, Ended, Held, InTransaction, Jobs, NackOptions } from './verbs.ts'
export type { Worker } from './worker.ts'
export type { WorkerCounts, WorkerEvents } from './workerevents.ts'
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
} from './workeroptions.ts'
