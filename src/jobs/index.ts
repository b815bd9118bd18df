/** Jobs that commit with your data: leased, fenced, retried, kept. */
export type { HandlerJob } from './handlerjob.ts'
export * from './job.ts'
export {
  type AckOptions,
  createJobs,
  type Ended,
  type Held,
  type InTransaction,
  type Jobs,
  type NackOptions,
} from './jobs.ts'
export type { AddOptions, ClaimOptions, JobToAdd, ListOptions } from './options.ts'
export { cancelTopic, type JobsBell, type JobsParts, queueTopic } from './parts.ts'
export * from './store.ts'
export { createUpkeep } from './upkeep.ts'
export type { Worker } from './worker.ts'
export type { WorkerCounts, WorkerEvents } from './workerevents.ts'
export type { Handler, HandlerContext, HandlerFunction, HandlerSpec, WorkerOptions } from './workeroptions.ts'
