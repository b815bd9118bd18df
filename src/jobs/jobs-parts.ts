import type { Contention } from '../contention/index.ts'
import type { Clock } from '../core/clock.ts'
import type { Jobs } from './api/jobs-api.ts'
import type { DependencyStore } from './dependencies/dependency-store.ts'
import type { JobLocks } from './dependencies/job-locks.ts'
import type { JobStore } from './job-store.ts'
import type { LogKeeper } from './logs/log-writer.ts'
import type { ScheduleStore } from './schedules/schedule-store.ts'
import type { JobsTelemetry } from './telemetry/telemetry.ts'

/** What the room is made of; the caller hands it in from a backend. */
export interface JobsParts {
  readonly store: JobStore
  readonly notifier: JobsNotifier
  /** Keeps what attempts say of themselves. @default nobody does, and nothing is shown of it */
  readonly logs?: LogKeeper
  /**
   * The service of the same queues that this one stands in for, perhaps for one request: what is added here and falls
   * due later is told of by that one, which lives longer. @default it tells by itself
   */
  readonly beside?: Jobs
  /** For Signalbox's own rooms: queues named `signalbox.…` may be added to and worked on, and are counted. @default false */
  readonly reserved?: boolean
  /** Learns how long workers wait for the store, and jobs for a place among those that run. @default nobody does */
  readonly contention?: Contention
  /** Whether bulk operations are worked on here, once one is begun here or a worker runs. @default true */
  readonly worksBulk?: boolean
  /** Where it is kept what jobs wait for, and the locks they wait for. @default the store is trusted with both */
  readonly dependencies?: { readonly store: DependencyStore; readonly locks: JobLocks }
  /** Whether jobs that wait are let on here, once a worker runs. @default true */
  readonly resolvesDependencies?: boolean
  /** Where schedules are kept; boxes that work run them. @default nowhere */
  readonly schedules?: ScheduleStore
  /**
   * For servers: what is sealed is handed on as it is kept, to boxes that may have the key, instead of being shown or
   * refused as sealed. @default false
   */
  readonly passesSealed?: boolean
  /** Makes spans and metrics of what is added and run. @default nobody does */
  readonly telemetry?: JobsTelemetry
  /** What the time of attempts is read from, and their time-outs run by. @default the process's own */
  readonly clock?: Clock
}

/** The part of a backend's notifier that jobs use. */
export interface JobsNotifier {
  wake(topic: string): void
  /** Where the engine can: wakes when the caller's transaction commits. */
  wakeAtCommit?(tx: unknown, topics: readonly string[]): Promise<void>
  listen(topics: readonly string[], heard: () => void): () => void
}

/** The topic of a queue's news. */
export function queueTopic(queue: string): string {
  return `jobs:${queue}`
}

/** The topic of cancellation requests. */
export const cancelTopic = 'jobs.cancel'

/** The topic of schedules that were set or resumed. */
export const schedulesTopic = 'jobs.schedules'

/** The topic of jobs that wait for others or for a lock. */
export const dependenciesTopic = 'jobs.dependencies'
