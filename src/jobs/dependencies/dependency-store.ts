import type { JobState } from '../job.ts'

/**
 * What jobs depend on: other jobs, and a lock. The store writes a job and its dependencies in one transaction; the job
 * is `waiting`, and no claim sees it. Each step that unblocks a job requires that the job still waits. So any number of
 * resolvers may run at once, in any number of processes, and any of them may crash.
 *
 *     add ──▶ waiting ──dependencies met──▶ (the lock is requested) ──granted──▶ scheduled or ready ──▶ …
 *                │                                    ▲                             │
 *                └── one failed ──▶ cancelled         └── blocked again: back-off, ─┘
 *                                                         lock lost
 *
 * Dependencies are in the store that holds the jobs. Removing a job removes its dependencies; `prune` removes those of
 * jobs that are gone.
 */
export interface NewDependencies {
  /** Jobs that must complete first; each once, and never the job itself. */
  readonly jobs: readonly string[]
  /** The lock that the job acquires before each attempt; null: none. */
  readonly lock: { readonly operation: string; readonly resource: string } | null
}

export interface DependencyStore {
  /** The present states of these jobs, in order, as `find` shows them; undefined: no such job. */
  states(ids: readonly string[]): Promise<readonly (JobState | undefined)[]>
  /** Returns which of these jobs the caller's transaction sees, including jobs that it added. */
  seenIn(tx: unknown, ids: readonly string[]): Promise<readonly string[]>

  /**
   * Unmet dependencies, ordered by job and then dependency, byte by byte. With `of`: dependencies on these jobs.
   * Without: dependencies behind `after`. A job that no longer waits (it was cancelled, or an operator retried it) may
   * still have unmet dependencies: `meet` clears them.
   */
  unmet(query: DependencyQuery): Promise<readonly Dependency[]>
  /**
   * Marks these dependencies as met. In the same step, a waiting job without unmet dependencies is unblocked: if it
   * depends on a lock, a resolver must request the lock (`lock`); else the job is `ready`, or `scheduled` before its
   * `runAt`. Returns the unblocked jobs, except jobs that were already due to request their lock.
   */
  meet(dependencies: readonly Dependency[]): Promise<readonly Unblocked[]>
  /**
   * Ends waiting jobs as `cancelled` with this error (JSON text), and marks their dependencies as met. Returns the
   * ended jobs.
   */
  fail(ends: readonly { readonly jobId: string; readonly error: string }[]): Promise<readonly string[]>
  /** The dependencies and dependents of a job, met or not, up to `limit` each, by id, with their present states. */
  around(id: string, limit: number): Promise<Neighbours>
  /**
   * The intervals in which a job was blocked, oldest first: up to 50 that ended, and the present one, which has no end.
   */
  blocks(id: string): Promise<readonly BlockRecord[]>

  /**
   * Returns up to `limit` jobs that request or hold their lock and that no resolver tended lately, the longest untended
   * first. They count as tended for `tendMs`. With `of`: only these jobs, tended or not.
   */
  tend(request: TendRequest): Promise<readonly LockDependency[]>
  /** Whether there is an unmet dependency, or any job requests or holds its lock, tended or not. */
  hasBlocked(): Promise<boolean>
  /**
   * Request `askNo` got the lock with this fence. If the job still waits with that request, the store writes the fence,
   * and the job is `ready`, or `scheduled` before its `runAt`. Returns the job's queue, or undefined if it was too
   * late.
   */
  grant(request: {
    readonly jobId: string
    readonly askNo: number
    readonly fence: number
  }): Promise<string | undefined>
  /**
   * Request `askNo` is over: its grant was released, was lost, or is impossible. The store clears the fence, raises
   * `askNo` by one, and the job must request the lock again at once. A ready or scheduled job waits again, with the
   * same `runAt` and attempts; a running job continues. Returns false if the job has another request already, or
   * depends on no lock. With `fence`: also if the job has another fence now (null: none).
   */
  blockAgain(request: BlockAgainRequest): Promise<boolean>
  /** The request of each of these jobs and its fence, in order; undefined: the job depends on no lock. */
  fences(ids: readonly string[]): Promise<readonly (Fence | undefined)[]>
  /** The same, and marks the fences as taken. `isTaken` says whether they were taken before. */
  take(ids: readonly string[]): Promise<readonly (TakenFence | undefined)[]>
  /**
   * Puts the lock dependencies of ended jobs to rest: the store clears the fence and raises `askNo` by one. No resolver
   * tends these jobs until a retry calls `blockAgain`.
   */
  rest(ids: readonly string[]): Promise<void>

  /** Removes up to `limit` dependencies of jobs that are gone. Returns their number. */
  prune(limit: number): Promise<number>
}

export interface BlockAgainRequest {
  readonly jobId: string
  readonly askNo: number
  readonly fence?: number | null
}

export interface DependencyQuery {
  readonly of?: readonly string[]
  readonly after?: Dependency
  readonly limit: number
}

/** One job depends on another. */
export interface Dependency {
  readonly jobId: string
  readonly dependencyId: string
}

export interface Unblocked {
  readonly jobId: string
  readonly queue: string
  readonly to: 'lock' | 'scheduled' | 'ready'
}

export interface Neighbours {
  readonly dependencies: readonly Neighbour[]
  readonly dependents: readonly Neighbour[]
}

export interface Neighbour {
  readonly id: string
  /** Undefined: the job is gone. */
  readonly state: JobState | undefined
  readonly isMet: boolean
}

export interface TendRequest {
  readonly limit: number
  readonly tendMs: number
  readonly of?: readonly string[]
}

/** One of a job's requests for its lock. */
export interface LockAsk {
  readonly operation: string
  readonly resource: string
  readonly jobId: string
  /** The number of the request, from 1. */
  readonly askNo: number
}

/** A job that requests a lock, or holds it. */
export interface LockDependency extends LockAsk {
  /** Null: not granted yet. */
  readonly fence: number | null
  /** Whether a claim took the fence. */
  readonly isTaken: boolean
  /** Undefined: the job is gone. */
  readonly state: JobState | undefined
  /** The time until its `runAt`, by the store's clock; 0: the job is due. */
  readonly dueInMs: number
}

export interface Fence {
  readonly askNo: number
  /** Null: not granted. */
  readonly fence: number | null
}

export interface TakenFence extends Fence {
  readonly isTaken: boolean
}

/** An interval in which a job could not be claimed. */
export interface BlockRecord {
  /** The job waited for other jobs, or for its lock. */
  readonly cause: 'dependencies' | 'lock'
  readonly startedAt: number
  /** Null: the job is still blocked. */
  readonly endedAt: number | null
}
