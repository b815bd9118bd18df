import type { JobState } from '../job.ts'

/**
 * What jobs depend on: other jobs, and a lock. A job with dependencies is added as `waiting`, in one transaction with
 * them, and no claim sees it. Each step that unblocks a job is conditional on the job still waiting. So any number of
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
  /** Jobs that must have completed; each once, and never the job itself. */
  readonly jobs: readonly string[]
  /** The lock that the job acquires before each attempt; null: none. */
  readonly lock: { readonly operation: string; readonly resource: string } | null
}

export interface DependencyStore {
  /** The present states of these jobs, in order, as `find` shows them; undefined: there is no such job. */
  states(ids: readonly string[]): Promise<readonly (JobState | undefined)[]>
  /** Those of these jobs that the caller's transaction sees, including jobs that it added. */
  seenIn(tx: unknown, ids: readonly string[]): Promise<readonly string[]>

  /**
   * Unmet dependencies, ordered by job and then dependency, byte by byte. With `of`: dependencies on these jobs. Else:
   * those behind `after`. A job that no longer waits (it was cancelled, or an operator retried it) may still have some:
   * `meet` clears them.
   */
  unmet(query: DependencyQuery): Promise<readonly Dependency[]>
  /**
   * Marks these dependencies as met. In the same step, a waiting job without unmet dependencies is unblocked: if it
   * depends on a lock, the lock is to be requested (`lock`); else it is `ready`, or `scheduled` before its `runAt`.
   * Returns the unblocked jobs, but not one whose lock was to be requested already.
   */
  meet(dependencies: readonly Dependency[]): Promise<readonly Unblocked[]>
  /**
   * Ends waiting jobs as `cancelled`, with this error (JSON text), and marks their dependencies as met. Returns the
   * ended jobs.
   */
  fail(ends: readonly { readonly jobId: string; readonly error: string }[]): Promise<readonly string[]>
  /**
   * The jobs that a job depends on, and its dependents, met or not, up to `limit` each, by id, with their present
   * states.
   */
  around(id: string, limit: number): Promise<Neighbours>
  /**
   * The last times in which a job was blocked, oldest first, up to 50 that ended. The one that lasts has no end. A job
   * that was never blocked has none.
   */
  blocks(id: string): Promise<readonly BlockRecord[]>

  /**
   * Takes up to `limit` jobs that request or hold their lock and that no resolver has tended lately, the longest
   * untended first. They count as tended for `tendMs`. With `of`: those of these jobs, tended or not.
   */
  tend(request: TendRequest): Promise<readonly LockDependency[]>
  /** Whether there is an unmet dependency, or any job requests or holds its lock, tended or not. */
  hasBlocked(): Promise<boolean>
  /**
   * Request `askNo` was granted with this fence. If the job still waits with that request, the fence is kept and the
   * job is `ready`, or `scheduled` before its `runAt`. Returns the job's queue, or undefined when it was too late.
   */
  grant(request: {
    readonly jobId: string
    readonly askNo: number
    readonly fence: number
  }): Promise<string | undefined>
  /**
   * Request `askNo` is over: its grant was released or lost, or never came. The fence is forgotten, `askNo` rises by
   * one, and the lock is to be requested again, at once. A ready or scheduled job waits again, with its `runAt` and
   * attempts as they are; a running job runs on. Returns false if the job has another request already, or depends on no
   * lock. With `fence`: also if that is not the fence it has now (null: none).
   */
  blockAgain(request: BlockAgainRequest): Promise<boolean>
  /** The request of each of these jobs and its fence, in order; undefined: the job depends on no lock. */
  fences(ids: readonly string[]): Promise<readonly (Fence | undefined)[]>
  /** The same, and the fences count as taken from then on; `isTaken` says whether they did before. */
  take(ids: readonly string[]): Promise<readonly (TakenFence | undefined)[]>
  /**
   * Puts the lock dependencies of ended jobs to rest: the fence is forgotten, `askNo` rises by one, and no resolver
   * tends them until `blockAgain`, should the job be retried.
   */
  rest(ids: readonly string[]): Promise<void>

  /** Removes up to `limit` dependencies of jobs that are gone. Returns how many. */
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
  /** Undefined: it is gone. */
  readonly state: JobState | undefined
  readonly isMet: boolean
}

export interface TendRequest {
  readonly limit: number
  readonly tendMs: number
  readonly of?: readonly string[]
}

/** A job that requests a lock, or holds it. */
export interface LockDependency {
  readonly jobId: string
  readonly operation: string
  readonly resource: string
  /** The number of its request, from 1. */
  readonly askNo: number
  /** Null: not granted yet. */
  readonly fence: number | null
  /** Whether a claim has or had the fence. */
  readonly isTaken: boolean
  /** Undefined: it is gone. */
  readonly state: JobState | undefined
  /** How long until its `runAt`, by the store's clock; 0: it has come. */
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

/** A time in which a job could not be claimed. */
export interface BlockRecord {
  /** It waited for other jobs, or for its lock. */
  readonly cause: 'dependencies' | 'lock'
  readonly startedAt: number
  /** Null: it lasts. */
  readonly endedAt: number | null
}
