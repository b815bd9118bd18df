import type { FleetWorker, WantedMode, WorkerMode, WorkerVia } from './fleet-worker.ts'

/**
 * The rows of workers in one namespace. Leases, `since` and all other instants come from the store's clock; a process
 * only says how long ago something was.
 */
export interface WorkerStore {
  /**
   * Writes the rows of workers that began. Answers, in order, whether each has its id now; false: a live worker has it.
   * A row is taken over when its lease ended, when it was only derived from claims (`http`), or when an earlier process
   * of the same host and pid wrote it.
   */
  join(workers: readonly NewWorker[], leaseMs: number): Promise<readonly boolean[]>
  /** Renews rows, and says what is wanted of each worker, in order. */
  renew(renewals: readonly WorkerRenewal[], leaseMs: number): Promise<readonly WorkerStanding[]>
  /** What is wanted of each worker, in order. */
  wanted(workers: readonly WorkerRef[]): Promise<readonly WorkerStanding[]>
  /** Deletes the rows of workers that stopped. */
  leave(workers: readonly WorkerRef[]): Promise<void>
  /** By id, without schemas. `after` is the last id of the page before. `now` is the store's clock. */
  list(query: { readonly limit: number; readonly after?: string | undefined }): Promise<WorkerPage>
  find(id: string): Promise<{ readonly worker: WorkerRecord; readonly now: number } | undefined>
  /** Says what is wanted of a worker whose lease holds. False: there is none. */
  want(id: string, wanted: WantedMode, graceMs: number | null): Promise<boolean>
  /** The kinds of jobs that are ready in a queue, from the first jobs to be claimed. */
  readyKinds(queue: string, limit: number): Promise<ReadyKinds>
  /** Deletes rows whose lease ended longer ago than that; answers how many. */
  prune(query: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** `count` is at least that many; `oldestAt` is when the oldest of them was due. */
export interface ReadyKinds {
  readonly kinds: readonly { readonly kind: string; readonly count: number; readonly oldestAt: number }[]
  readonly now: number
}

export interface WorkerPage {
  readonly workers: readonly WorkerRecord[]
  readonly now: number
}

/** A row of one run of a worker: `session` tells it from other workers with its id. */
export interface WorkerRef {
  readonly id: string
  readonly session: string
}

/** The row of a worker that begins. */
export interface NewWorker extends WorkerRenewal {
  readonly workerId: string
  readonly via: WorkerVia
  readonly host: string | null
  readonly pid: number | null
  /** Differs for each process. */
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

/** What a worker does now. */
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

/** A row as it is stored. */
export interface WorkerRecord extends Omit<FleetWorker, 'state'> {
  readonly mode: WorkerMode
  /** Empty in lists. */
  readonly schemas: Readonly<Record<string, unknown>>
}
