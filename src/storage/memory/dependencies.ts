import type {
  BlockAgainRequest,
  BlockRecord,
  Dependency,
  DependencyQuery,
  DependencyStore,
  Fence,
  JobState,
  LockDependency,
  Neighbour,
  Neighbours,
  NewDependencies,
  TakenFence,
  TendRequest,
  Unblocked,
} from '../../jobs/index.ts'
import { compareBytes } from '../compare-bytes.ts'
import { unsupported } from './transaction.ts'

/** The calls on jobs that the dependency store needs. Each call is synchronous, so it belongs to the same step. */
export interface DependentJobs {
  /** The job at this moment; undefined: there is no such job. */
  look(id: string):
    | {
        readonly queue: string
        readonly state: JobState
        readonly dueInMs: number
        /** When the job last began to wait. */
        readonly waitsSince: number
      }
    | undefined
  /** Makes a waiting job ready or scheduled and returns its new state. Undefined: the job does not wait. */
  unblock(id: string): 'ready' | 'scheduled' | undefined
  /** Makes a ready or scheduled job wait. */
  block(id: string): void
  /** Cancels a waiting job. False: the job does not wait. */
  cancelBlocked(id: string, error: string): boolean
}

/** The lock that a job waits for. */
interface Lock {
  readonly jobId: string
  readonly operation: string
  readonly resource: string
  askNo: number
  fence: number | null
  takenFence: number | null
  isCalled: boolean
  tendedUntil: number
}

/** The dependencies and locks for which jobs of one namespace wait. */
export class MemoryDependencies implements DependencyStore {
  readonly #now: () => number
  readonly #jobs: DependentJobs
  /** By job, then by dependency: whether the dependency is met. */
  readonly #dependencies = new Map<string, Map<string, boolean>>()
  readonly #locks = new Map<string, Lock>()
  /** By job, oldest first. */
  readonly #blocks = new Map<string, BlockRecord[]>()

  constructor(now: () => number, jobs: DependentJobs) {
    this.#now = now
    this.#jobs = jobs
  }

  /** Whether a job waits for another job or for its lock, or holds its lock. */
  get isBlocked(): boolean {
    const isAnyCalled = [...this.#locks.values()].some(({ isCalled }) => isCalled)
    return isAnyCalled || [...this.#dependencies.values()].some(hasUnmet)
  }

  /** Stores the dependencies and the lock of a new job. */
  keep(jobId: string, { jobs, lock }: NewDependencies): void {
    if (jobs.length > 0)
      this.#dependencies.set(jobId, new Map(jobs.map((dependencyId) => [dependencyId, false])))
    if (lock === null) return
    const isCalled = jobs.length === 0
    this.#locks.set(jobId, {
      ...{ jobId, ...lock, askNo: 1, fence: null, takenFence: null },
      ...{ isCalled, tendedUntil: 0 },
    })
  }

  /** Deletes the dependencies, locks and blocks of removed jobs. */
  forget(ids: readonly string[]): void {
    for (const id of ids) {
      this.#dependencies.delete(id)
      this.#locks.delete(id)
      this.#blocks.delete(id)
    }
  }

  async blocks(id: string): Promise<readonly BlockRecord[]> {
    const ended = this.#blocks.get(id) ?? []
    const startedAt = this.#blockedSince(id)
    if (startedAt === undefined) return [...ended]
    const cause = hasUnmet(this.#dependencies.get(id) ?? new Map()) ? 'dependencies' : 'lock'
    return [...ended, { cause, startedAt, endedAt: null }]
  }

  /** When the present wait of a job began; undefined: the job does not wait. */
  #blockedSince(id: string): number | undefined {
    const job = this.#jobs.look(id)
    if (job?.state !== 'waiting') return undefined
    return Math.max(job.waitsSince, this.#blocks.get(id)?.at(-1)?.endedAt ?? 0)
  }

  /** Ends the present block of a job. Call it before the state of the job changes. */
  #endBlock(id: string, cause: BlockRecord['cause']): void {
    const startedAt = this.#blockedSince(id)
    if (startedAt === undefined) return
    const blocks = [...(this.#blocks.get(id) ?? []), { cause, startedAt, endedAt: this.#now() }]
    this.#blocks.set(id, blocks.slice(-keptBlocks))
  }

  async states(ids: readonly string[]): Promise<readonly (JobState | undefined)[]> {
    return ids.map((id) => this.#jobs.look(id)?.state)
  }

  async seenIn(): Promise<readonly string[]> {
    throw unsupported()
  }

  async unmet({ of, after, limit }: DependencyQuery): Promise<readonly Dependency[]> {
    const isWanted = (dependency: Dependency) =>
      of !== undefined
        ? of.includes(dependency.dependencyId)
        : after === undefined || byBytes(dependency, after) > 0
    return this.#rows()
      .filter(({ isMet, ...dependency }) => !isMet && isWanted(dependency))
      .sort(byBytes)
      .slice(0, limit)
      .map(({ jobId, dependencyId }) => ({ jobId, dependencyId }))
  }

  async meet(dependencies: readonly Dependency[]): Promise<readonly Unblocked[]> {
    const met = dependencies.filter(({ jobId, dependencyId }) => {
      const own = this.#dependencies.get(jobId)
      if (own?.get(dependencyId) !== false) return false
      own.set(dependencyId, true)
      return true
    })
    return [...new Set(met.map(({ jobId }) => jobId))].flatMap((jobId) => this.#unblock(jobId))
  }

  async fail(ends: readonly { jobId: string; error: string }[]): Promise<readonly string[]> {
    const failed = ends
      .filter(({ jobId, error }) => this.#jobs.cancelBlocked(jobId, error))
      .map(({ jobId }) => jobId)
    for (const id of failed) {
      const own = this.#dependencies.get(id)
      for (const dependencyId of own?.keys() ?? []) own!.set(dependencyId, true)
    }
    return failed
  }

  async around(id: string, limit: number): Promise<Neighbours> {
    const rows = this.#rows().sort(byBytes)
    const neighbour = (other: string, isMet: boolean): Neighbour => ({
      id: other,
      state: this.#jobs.look(other)?.state,
      isMet,
    })
    const dependencies = rows.filter(({ jobId }) => jobId === id).slice(0, limit)
    const dependents = rows.filter(({ dependencyId }) => dependencyId === id).slice(0, limit)
    return {
      dependencies: dependencies.map(({ dependencyId, isMet }) => neighbour(dependencyId, isMet)),
      dependents: dependents.map(({ jobId, isMet }) => neighbour(jobId, isMet)),
    }
  }

  async tend({ limit, tendMs, of }: TendRequest): Promise<readonly LockDependency[]> {
    const now = this.#now()
    const taken = [...this.#locks.values()]
      .filter(({ isCalled }) => isCalled)
      .filter(({ jobId, tendedUntil }) => (of === undefined ? tendedUntil <= now : of.includes(jobId)))
      .sort((a, b) => a.tendedUntil - b.tendedUntil || compareBytes(a.jobId, b.jobId))
      .slice(0, limit)
    return taken.map((lock) => {
      lock.tendedUntil = now + tendMs
      const { jobId, operation, resource, askNo, fence } = lock
      const job = this.#jobs.look(jobId)
      return {
        ...{ jobId, operation, resource, askNo, fence, isTaken: isTaken(lock) },
        ...{ state: job?.state, dueInMs: job?.dueInMs ?? 0 },
      }
    })
  }

  async hasBlocked(): Promise<boolean> {
    return this.isBlocked
  }

  async grant({
    jobId,
    askNo,
    fence,
  }: {
    jobId: string
    askNo: number
    fence: number
  }): Promise<string | undefined> {
    const lock = this.#locks.get(jobId)
    if (!lock?.isCalled || lock.askNo !== askNo) return undefined
    this.#endBlock(jobId, 'lock')
    if (!this.#jobs.unblock(jobId)) return undefined
    lock.fence = fence
    return this.#jobs.look(jobId)!.queue
  }

  async blockAgain({ jobId, askNo, fence }: BlockAgainRequest): Promise<boolean> {
    const lock = this.#locks.get(jobId)
    if (lock?.askNo !== askNo || (fence !== undefined && lock.fence !== fence)) return false
    lock.fence = null
    lock.askNo++
    lock.isCalled = true
    lock.tendedUntil = 0
    this.#jobs.block(jobId)
    return true
  }

  async fences(ids: readonly string[]): Promise<readonly (Fence | undefined)[]> {
    return ids.map((id) => {
      const lock = this.#locks.get(id)
      return lock && { askNo: lock.askNo, fence: lock.fence }
    })
  }

  async take(ids: readonly string[]): Promise<readonly (TakenFence | undefined)[]> {
    return ids.map((id) => {
      const lock = this.#locks.get(id)
      if (lock === undefined) return undefined
      const taken = { askNo: lock.askNo, fence: lock.fence, isTaken: isTaken(lock) }
      lock.takenFence = lock.fence ?? lock.takenFence
      return taken
    })
  }

  async rest(ids: readonly string[]): Promise<void> {
    for (const id of new Set(ids)) {
      const lock = this.#locks.get(id)
      const state = this.#jobs.look(id)?.state
      if (!lock || state === undefined || !hasEnded(state)) continue
      lock.fence = null
      lock.askNo++
      lock.isCalled = false
    }
  }

  async prune(limit: number): Promise<number> {
    let forgotten = 0
    const isGone = (id: string) => this.#jobs.look(id) === undefined
    for (const [jobId, own] of this.#dependencies) {
      if (!isGone(jobId)) continue
      for (const dependencyId of own.keys()) if (forgotten < limit && own.delete(dependencyId)) forgotten++
      if (own.size === 0) this.#dependencies.delete(jobId)
    }
    for (const jobId of this.#locks.keys()) {
      if (forgotten < limit && isGone(jobId) && this.#locks.delete(jobId)) forgotten++
    }
    for (const jobId of this.#blocks.keys()) if (isGone(jobId)) this.#blocks.delete(jobId)
    return forgotten
  }

  #unblock(jobId: string): Unblocked[] {
    const job = this.#jobs.look(jobId)
    if (job?.state !== 'waiting' || hasUnmet(this.#dependencies.get(jobId)!)) return []
    const { queue } = job
    const lock = this.#locks.get(jobId)
    if (lock?.isCalled) return []
    this.#endBlock(jobId, 'dependencies')
    if (!lock) return [{ jobId, queue, to: this.#jobs.unblock(jobId)! }]
    lock.isCalled = true
    return [{ jobId, queue, to: 'lock' }]
  }

  #rows(): (Dependency & { readonly isMet: boolean })[] {
    return [...this.#dependencies].flatMap(([jobId, own]) =>
      [...own].map(([dependencyId, isMet]) => ({ jobId, dependencyId, isMet })),
    )
  }
}

const keptBlocks = 50

function isTaken({ fence, takenFence }: Lock): boolean {
  return fence !== null && fence === takenFence
}

function hasUnmet(own: ReadonlyMap<string, boolean>): boolean {
  return [...own.values()].includes(false)
}

function hasEnded(state: JobState): boolean {
  return state === 'completed' || state === 'dead' || state === 'cancelled'
}

function byBytes(a: Dependency, b: Dependency): number {
  return compareBytes(a.jobId, b.jobId) || compareBytes(a.dependencyId, b.dependencyId)
}
