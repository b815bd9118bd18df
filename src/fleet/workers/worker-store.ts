import { SignalboxError } from '../../core/errors.ts'
import type { FleetWorker, WantedMode, WorkerMode, WorkerVia } from './fleet-worker.ts'

/**
 * The rows of workers in one namespace. Leases, `since` and all other instants come from the store's clock. A process
 * sends only ages.
 */
export interface WorkerStore {
  /**
   * Writes the rows of new workers. Returns, in order, whether each has its id now; false: another live worker has it.
   * A worker takes over a row whose lease expired, a row that was only derived from claims (`http`), and a row of an
   * earlier process with the same host and pid.
   */
  join(workers: readonly NewWorker[], leaseMs: number): Promise<readonly boolean[]>
  /** Renews rows. Returns the requests of operators to each worker, in order. */
  renew(renewals: readonly WorkerRenewal[], leaseMs: number): Promise<readonly WorkerStanding[]>
  /** Reads the requests of operators to each worker, in order. */
  wanted(workers: readonly WorkerRef[]): Promise<readonly WorkerStanding[]>
  /** Deletes the rows of workers that stopped. */
  leave(workers: readonly WorkerRef[]): Promise<void>
  /** Lists rows by id, without schemas. `after` is the last id of the previous page. `now` is the store's clock. */
  list(query: { readonly limit: number; readonly after?: string | undefined }): Promise<WorkerPage>
  find(id: string): Promise<{ readonly worker: WorkerRecord; readonly now: number } | undefined>
  /** Writes a request to a worker with a live lease. Returns false if there is none. */
  want(id: string, wanted: WantedMode, graceMs: number | null): Promise<boolean>
  /** The kinds of ready jobs in a queue, read from the jobs that are next. */
  readyKinds(queue: string, limit: number): Promise<ReadyKinds>
  /** Deletes rows whose lease expired at least `olderThanMs` ago. Returns their number. */
  prune(query: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** There may be more jobs than `count`. `oldestAt` is the due time of the oldest job. */
export interface ReadyKinds {
  readonly kinds: readonly { readonly kind: string; readonly count: number; readonly oldestAt: number }[]
  readonly now: number
}

export interface WorkerPage {
  readonly workers: readonly WorkerRecord[]
  readonly now: number
}

/** The row of one run of a worker. `session` distinguishes it from other workers with the same id. */
export interface WorkerRef {
  readonly id: string
  readonly session: string
}

/** The row of a new worker. */
export interface NewWorker extends WorkerRenewal {
  readonly workerId: string
  readonly via: WorkerVia
  readonly host: string | null
  readonly pid: number | null
  /** Unique for each process. */
  readonly boot: string
  readonly queues: readonly string[]
  readonly kinds: readonly string[] | null
  readonly schemas: Readonly<Record<string, unknown>>
  readonly concurrency: number | null
  readonly release: string | null
  readonly version: string | null
  /** How long ago it started. */
  readonly ageMs: number
}

/** The present work of a worker. */
export interface WorkerRenewal extends WorkerRef {
  readonly mode: WorkerMode
  readonly running: readonly { readonly id: string; readonly kind: string; readonly ms: number }[]
  readonly runningCount: number | null
}

/** `missing`: there is no row. `taken`: another worker has the id. */
export type WorkerStanding =
  | { readonly status: 'here'; readonly wanted: WantedMode; readonly graceMs: number | null }
  | { readonly status: 'missing' }
  | { readonly status: 'taken' }

/** A stored row. */
export interface WorkerRecord extends Omit<FleetWorker, 'state'> {
  readonly mode: WorkerMode
  /** Empty in lists. */
  readonly schemas: Readonly<Record<string, unknown>>
}

/** The store of jobs that were created without a worker store. */
export const absentWorkers: WorkerStore = {
  join: refuseAbsent,
  renew: refuseAbsent,
  wanted: refuseAbsent,
  leave: refuseAbsent,
  list: refuseAbsent,
  find: refuseAbsent,
  want: refuseAbsent,
  readyKinds: refuseAbsent,
  prune: refuseAbsent,
}

async function refuseAbsent(): Promise<never> {
  throw new SignalboxError('conflict', 'There is no store of workers here; use the jobs of a box.')
}
