import type { JobState } from '../job.ts'

/**
 * What a job may wait for before it can be claimed, and what that asks of a backend. Such a job is added `waiting`
 * together with what it waits for, in one transaction, and no claim sees it. Everything that lets it on is written on the
 * condition that it still waits; so any number of keepers may try at once, in any number of processes, and any may die.
 *
 *     add ──▶ waiting ──dependencies met──▶ (the lock is requested) ──granted──▶ scheduled or ready ──▶ …
 *                │                                    ▲                             │
 *                └── one failed ──▶ cancelled         └──── shut: back-off, lost ───┘
 *
 * What is kept here is always in the store that holds the jobs, and goes with a job that is removed; `prune` forgets
 * what belongs to jobs that are gone.
 */
export interface NewGate {
  /** Jobs that must have completed; each once, none of them the job itself. */
  readonly dependencies: readonly string[]
  /** The line it stands in before each of its attempts; null: none. */
  readonly lock: { readonly operation: string; readonly resource: string } | null
}

export interface GateStore {
  /** The present state of these jobs, in order, as `find` would tell it; undefined: there is no such job. */
  states(ids: readonly string[]): Promise<readonly (JobState | undefined)[]>
  /** Those of these jobs that a transaction of the caller's sees: what it has added itself is among them. */
  seenIn(tx: unknown, ids: readonly string[]): Promise<readonly string[]>

  /**
   * Dependencies that are not met yet, by job and then dependency, byte by byte: of `of`, those for one of these jobs; else those
   * behind `after`. Also of jobs that wait no more (they were cancelled, or let go by an operator): `meet` clears those.
   */
  unmet(query: DependencyQuery): Promise<readonly Dependency[]>
  /**
   * Marks these dependencies as met. A job that waits and has no unmet dependency left is let on in the same step: with a lock it is
   * called to its line (`lock`), else it is `ready` or, when its `runAt` has not come, `scheduled`. Answers the jobs let on;
   * one that was called before, by `shut`, is not told again.
   */
  meet(dependencies: readonly Dependency[]): Promise<readonly LetOn[]>
  /** Ends jobs that wait as `cancelled`, with this error (JSON text), and their dependencies as met. Answers the ids that did. */
  fail(ends: readonly { readonly jobId: string; readonly error: string }[]): Promise<readonly string[]>
  /** The jobs that a job depends on, and those that depend on it, met or not, up to `limit` each, by id; with their present state. */
  around(id: string, limit: number): Promise<Neighbours>

  /**
   * Takes up to `limit` jobs that were called to a line or hold their lock, and that nobody has tended for a while, the
   * longest untended first, and counts them as tended for `tendMs`. With `of`: those of these jobs, tended or not.
   */
  tend(request: TendRequest): Promise<readonly LockGate[]>
  /** Whether any job was called to a line or holds its lock, tended or not. */
  hasCalled(): Promise<boolean>
  /**
   * The line has granted ask `askNo` with this fence: if the job still waits with that ask, the fence is kept and the
   * job is `ready` or, when its `runAt` has not come, `scheduled`. Answers the job's queue, or undefined: too late.
   */
  grant(request: {
    readonly jobId: string
    readonly askNo: number
    readonly fence: number
  }): Promise<string | undefined>
  /**
   * Ask `askNo` is over (its grant was released or lost, or it never came): the fence is forgotten, `askNo` is one more
   * and the job is called to its line anew. A job that is ready or scheduled waits again, with its `runAt` and attempts as
   * they are; one that runs runs on. From now on nobody counts as tending it. False: it had another ask already, or there
   * is no such gate. With `fence`: also when that is not the fence it has now (null: none), as when somebody else was
   * granted it meanwhile.
   */
  shut(request: ShutRequest): Promise<boolean>
  /** The ask of each of these jobs and the fence it has, in order; undefined: it has no lock gate. */
  fences(ids: readonly string[]): Promise<readonly (Fence | undefined)[]>
  /** The same; a fence that it answers is taken from then on, and `isTaken` says whether it was before. */
  take(ids: readonly string[]): Promise<readonly (TakenFence | undefined)[]>
  /**
   * Puts the lock gates of these jobs to rest, where the job has ended: the fence is forgotten, `askNo` is one more, and
   * nobody tends it until `shut` calls it again, should the job be retried.
   */
  rest(ids: readonly string[]): Promise<void>

  /** Forgets up to `limit` dependencies and lock gates of jobs that are gone; answers how many. */
  prune(limit: number): Promise<number>
}

export interface ShutRequest {
  readonly jobId: string
  readonly askNo: number
  readonly fence?: number | null
}

export interface DependencyQuery {
  readonly of?: readonly string[]
  readonly after?: Dependency
  readonly limit: number
}

/** That one job waits for another. */
export interface Dependency {
  readonly jobId: string
  readonly dependencyId: string
}

export interface LetOn {
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

/** A job that waits for a lock, or has it. */
export interface LockGate {
  readonly jobId: string
  readonly operation: string
  readonly resource: string
  /** Which of its asks this is, from 1. */
  readonly askNo: number
  /** Null: not granted yet. */
  readonly fence: number | null
  /** Whether the fence was taken: a claim has or had it. */
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
