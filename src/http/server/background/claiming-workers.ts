import type {
  NewWorker,
  WantedMode,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkerStore,
} from '../../../fleet/workers/index.ts'
import { membershipTimes } from '../../../fleet/workers/index.ts'

interface SeenClaim {
  readonly workerId?: string | undefined
  readonly queues?: readonly string[] | undefined
  readonly kinds?: readonly string[] | undefined
}

interface ClaimedHere {
  readonly id: string
  readonly kind: string
  readonly leaseEndsAt: number
}

/** How long a program without running jobs stays listed after its last claim. */
const lingerMs = 20_000
/** How long the server does not list a worker that lists itself. Longer than `lingerMs`, so a stopped one stays unlisted. */
const restMs = 60_000
/** The most programs and running jobs that one server lists. */
const maxWorkers = 1_000
const maxJobs = 10_000
/** The most queues, and kinds, of one program. */
const maxNames = 1_000
/** The same on every server, because a program may claim from any of them. */
const session = 'http'

/**
 * Lists programs that only claim over HTTP, by the `workerId` of their claims. The server writes their rows. A worker
 * that lists itself has a live row already, and the server leaves that row alone. While an operator wants a program
 * quiet or stopped, its claims get no jobs, and the reply says why.
 *
 * The server knows the jobs of a program from the claims, renewals and ends that pass through it. This is only for
 * display: nothing depends on it.
 */
export class ClaimingWorkers {
  readonly #store: WorkerStore
  readonly #claimers = new Map<string, Claimer>()
  readonly #claimersByJob = new Map<string, Claimer>()
  #timer: ReturnType<typeof setInterval> | undefined
  #writing: Promise<void> | undefined

  constructor(store: WorkerStore) {
    this.#store = store
  }

  /** A claim arrived that may wait for `waitMs`. */
  seen({ workerId, queues = ['default'], kinds }: SeenClaim, waitMs: number): void {
    if (workerId === undefined) return
    let claimer = this.#claimers.get(workerId)
    if (claimer === undefined) {
      if (this.#claimers.size >= maxWorkers) return
      claimer = new Claimer(workerId)
      this.#claimers.set(workerId, claimer)
      this.#timer ??= setInterval(() => this.#update(), membershipTimes.pollMs).unref()
    }
    claimer.listedUntil = performance.now() + waitMs + lingerMs
    claimer.takes(queues, kinds)
  }

  /** What operators want of the worker, as far as this server knows. */
  wanted(workerId: string | undefined): WantedMode {
    return this.#find(workerId)?.wanted ?? 'run'
  }

  claimed(workerId: string | undefined, jobs: readonly ClaimedHere[]): void {
    const claimer = this.#find(workerId)
    if (claimer === undefined) return
    for (const { id, kind, leaseEndsAt } of jobs) {
      if (this.#claimersByJob.size >= maxJobs) return
      claimer.running.set(id, { kind, since: performance.now(), leaseEndsAt })
      this.#claimersByJob.set(id, claimer)
    }
  }

  renewed(jobId: string, leaseEndsAt: number): void {
    const job = this.#claimersByJob.get(jobId)?.running.get(jobId)
    if (job !== undefined) job.leaseEndsAt = leaseEndsAt
  }

  settled(jobId: string): void {
    const claimer = this.#claimersByJob.get(jobId)
    if (claimer === undefined) return
    this.#claimersByJob.delete(jobId)
    claimer.running.delete(jobId)
    claimer.listedUntil = Math.max(claimer.listedUntil, performance.now() + lingerMs)
  }

  /** These workers list themselves. */
  listThemselves(workerIds: readonly string[]): void {
    const restsUntil = performance.now() + restMs
    for (const workerId of workerIds) {
      const claimer = this.#claimers.get(workerId)
      if (claimer !== undefined) claimer.restsUntil = restsUntil
    }
  }

  /** These workers listed themselves and stopped. Resolves when this server is not writing a row of theirs. */
  async left(workerIds: readonly string[]): Promise<void> {
    for (const workerId of workerIds) {
      for (const jobId of this.#claimers.get(workerId)?.running.keys() ?? [])
        this.#claimersByJob.delete(jobId)
      this.#claimers.delete(workerId)
    }
    await this.#writing
  }

  close(): void {
    this.#stopTimer()
    this.#claimers.clear()
    this.#claimersByJob.clear()
  }

  #find(workerId: string | undefined): Claimer | undefined {
    return workerId === undefined ? undefined : this.#claimers.get(workerId)
  }

  #stopTimer(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Forgets programs that are gone, and writes the rows of the others. */
  #update(): void {
    const now = performance.now()
    for (const [workerId, claimer] of this.#claimers) {
      claimer.forgetExpired((jobId) => this.#claimersByJob.delete(jobId))
      if (claimer.listedUntil < now && claimer.running.size === 0) this.#claimers.delete(workerId)
    }
    if (this.#claimers.size === 0) {
      this.#stopTimer()
      return
    }
    // If the store does not answer, the next update tries again.
    this.#writing ??= this.#write(now)
      .catch(() => undefined)
      .finally(() => {
        this.#writing = undefined
      })
  }

  async #write(now: number): Promise<void> {
    const { leaseMs, renewMs, pollMs } = membershipTimes
    const all = [...this.#claimers.values()].filter(({ restsUntil }) => restsUntil <= now)
    const joining = all.filter(({ isListed }) => !isListed)
    const renewing = all.filter(({ isListed, writtenAt }) => isListed && now - writtenAt >= renewMs - pollMs)
    const others = all.filter((one) => one.isListed && !renewing.includes(one))
    if (joining.length > 0) {
      const rows = joining.map((one) => one.row(now))
      const joined = await this.#store.join(rows, leaseMs)
      for (const [at, one] of joining.entries()) one.joined(joined[at]!, now)
    }
    if (renewing.length > 0) {
      const renewals = renewing.map((one) => one.renewal(now))
      const standings = await this.#store.renew(renewals, leaseMs)
      for (const [at, one] of renewing.entries()) one.stands(standings[at]!, now)
    }
    if (others.length > 0) {
      const standings = await this.#store.wanted(others.map(({ ref }) => ref))
      for (const [at, one] of others.entries()) one.stands(standings[at]!, now)
    }
  }
}

/** A program that claims. */
class Claimer {
  readonly ref: WorkerRef
  readonly #startedAt = performance.now()
  /** By job. Leases end by the store's clock; this host's clock decides only how long a job is shown. */
  readonly running = new Map<string, { readonly kind: string; readonly since: number; leaseEndsAt: number }>()
  readonly #queues = new Set<string>()
  #kinds: Set<string> | null = new Set()
  /** Then the server stops listing the program, unless it claims again or runs a job. */
  listedUntil = 0
  /** Until then the server writes no row, because the worker lists itself. */
  restsUntil = 0
  isListed = false
  writtenAt = 0
  wanted: WantedMode = 'run'

  constructor(workerId: string) {
    this.ref = { id: workerId, session }
  }

  /** Adds queues and kinds. A program may claim from several in turn. */
  takes(queues: readonly string[], kinds: readonly string[] | undefined): void {
    const before = this.#nameCount
    for (const queue of queues) if (this.#queues.size < maxNames) this.#queues.add(queue)
    if (kinds === undefined) this.#kinds = null
    else for (const kind of kinds) if ((this.#kinds?.size ?? maxNames) < maxNames) this.#kinds?.add(kind)
    // The row shows queues and kinds, so the server writes it anew.
    if (this.#nameCount !== before) this.isListed = false
  }

  get #nameCount(): number {
    return this.#queues.size + (this.#kinds?.size ?? -1)
  }

  row(now: number): NewWorker {
    return {
      ...this.renewal(now),
      ...{ workerId: this.ref.id, via: 'http', host: null, pid: null, boot: session },
      queues: [...this.#queues],
      kinds: this.#kinds && [...this.#kinds].sort(),
      ...{ schemas: {}, concurrency: null, release: null, version: null },
      ageMs: Math.round(now - this.#startedAt),
    }
  }

  renewal(now: number): WorkerRenewal {
    this.writtenAt = now
    const running = [...this.running].slice(0, 20)
    return {
      ...this.ref,
      mode: this.wanted === 'run' ? 'running' : 'quiet',
      running: running.map(([id, { kind, since }]) => ({
        ...{ id, kind },
        ms: Math.max(0, Math.round(now - since)),
      })),
      runningCount: this.running.size,
    }
  }

  /** False: the worker lists itself. */
  joined(isListed: boolean, now: number): void {
    this.isListed = isListed
    if (!isListed) this.restsUntil = now + restMs
  }

  stands(standing: WorkerStanding, now: number): void {
    if (standing.status === 'here') {
      if (standing.wanted !== this.wanted) this.writtenAt = 0
      this.wanted = standing.wanted
      return
    }
    this.wanted = 'run'
    this.isListed = false
    if (standing.status === 'taken') this.restsUntil = now + restMs
  }

  forgetExpired(onForgotten: (jobId: string) => void): void {
    const now = Date.now()
    for (const [jobId, { leaseEndsAt }] of this.running) {
      if (leaseEndsAt >= now) continue
      this.running.delete(jobId)
      onForgotten(jobId)
    }
  }
}
