import type {
  NewWorker,
  WantedMode,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkerStore,
} from '../../../fleet/workers/index.ts'
import { membershipTimes } from '../../../fleet/workers/index.ts'

/**
 * Lists programs that only claim over HTTP, by the `workerId` of their claims: their rows are written here. A worker that
 * lists itself has a live row already, and then this leaves it alone. While an operator wants a program quiet or stopped,
 * its claims get no jobs, and the reply says why.
 *
 * What a program runs is known from the claims, renewals and ends that pass through this server; it is a picture, and
 * nothing depends on it.
 */
export interface ClaimingWorkers {
  /** A claim came, which may wait for so long. Answers what is wanted of its worker. */
  seen(claim: SeenClaim, waitMs: number): WantedMode
  /** What is wanted of that worker, as far as it is known. */
  wanted(workerId: string | undefined): WantedMode
  claimed(workerId: string | undefined, jobs: readonly ClaimedHere[]): void
  renewed(jobId: string, leaseEndsAt: number): void
  settled(jobId: string): void
  /** These workers list themselves. */
  listThemselves(workerIds: readonly string[]): void
  /** These workers listed themselves and stopped. Resolves when no row of theirs is being written here. */
  left(workerIds: readonly string[]): Promise<void>
  close(): void
}

export interface SeenClaim {
  readonly workerId?: string | undefined
  readonly queues?: readonly string[] | undefined
  readonly kinds?: readonly string[] | undefined
}

interface ClaimedHere {
  readonly id: string
  readonly kind: string
  readonly leaseEndsAt: number
}

/** After its last claim, and when it runs nothing, a program is listed for so long. */
const lingerMs = 20_000
/** How long a worker that lists itself is left alone. Longer than `lingerMs`, so that one that stopped is not listed here. */
const restMs = 60_000
/** The most programs and running jobs that are listed by one server. */
const maxWorkers = 1_000
const maxJobs = 10_000
/** The most queues, and kinds, of one program. */
const maxNames = 1_000
/** The same on every server: programs may claim from any of them. */
const session = 'http'

export function createClaimingWorkers(store: WorkerStore): ClaimingWorkers {
  const known = new Map<string, Claimer>()
  const byJob = new Map<string, Claimer>()
  let timer: ReturnType<typeof setInterval> | undefined
  let writing: Promise<void> | undefined

  function look(): void {
    const now = performance.now()
    for (const [workerId, claimer] of known) {
      claimer.forgetExpired((jobId) => byJob.delete(jobId))
      if (claimer.until < now && claimer.running.size === 0) known.delete(workerId)
    }
    if (known.size === 0) {
      clearInterval(timer)
      timer = undefined
    } else {
      // A store that does not answer is asked again with the next look.
      writing ??= write(now)
        .catch(() => undefined)
        .finally(() => {
          writing = undefined
        })
    }
  }

  async function write(now: number): Promise<void> {
    const { leaseMs, renewMs, pollMs } = membershipTimes
    const all = [...known.values()].filter(({ restsUntil }) => restsUntil <= now)
    const joining = all.filter(({ isListed }) => !isListed)
    const renewing = all.filter(({ isListed, writtenAt }) => isListed && now - writtenAt >= renewMs - pollMs)
    const others = all.filter((one) => one.isListed && !renewing.includes(one))
    if (joining.length > 0) {
      const took = await store.join(
        joining.map((one) => one.row(now)),
        leaseMs,
      )
      for (const [at, one] of joining.entries()) one.joined(took[at]!, now)
    }
    if (renewing.length > 0) {
      const standings = await store.renew(
        renewing.map((one) => one.renewal(now)),
        leaseMs,
      )
      for (const [at, one] of renewing.entries()) one.hear(standings[at]!, now)
    }
    if (others.length > 0) {
      const standings = await store.wanted(others.map(({ ref }) => ref))
      for (const [at, one] of others.entries()) one.hear(standings[at]!, now)
    }
  }

  return {
    seen({ workerId, queues = ['default'], kinds }, waitMs) {
      if (workerId === undefined) return 'run'
      let claimer = known.get(workerId)
      if (claimer === undefined) {
        if (known.size >= maxWorkers) return 'run'
        claimer = new Claimer(workerId)
        known.set(workerId, claimer)
        timer ??= startTimer(look)
      }
      claimer.until = performance.now() + waitMs + lingerMs
      claimer.takes(queues, kinds)
      return claimer.wanted
    },
    wanted: (workerId) => (workerId === undefined ? 'run' : (known.get(workerId)?.wanted ?? 'run')),
    claimed(workerId, jobs) {
      const claimer = workerId === undefined ? undefined : known.get(workerId)
      if (claimer === undefined) return
      for (const { id, kind, leaseEndsAt } of jobs) {
        if (byJob.size >= maxJobs) return
        claimer.running.set(id, { kind, since: performance.now(), leaseEndsAt })
        byJob.set(id, claimer)
      }
    },
    renewed(jobId, leaseEndsAt) {
      const job = byJob.get(jobId)?.running.get(jobId)
      if (job !== undefined) job.leaseEndsAt = leaseEndsAt
    },
    settled(jobId) {
      const claimer = byJob.get(jobId)
      if (claimer === undefined) return
      byJob.delete(jobId)
      claimer.running.delete(jobId)
      claimer.until = Math.max(claimer.until, performance.now() + lingerMs)
    },
    listThemselves(workerIds) {
      const restsUntil = performance.now() + restMs
      for (const workerId of workerIds) {
        const claimer = known.get(workerId)
        if (claimer !== undefined) claimer.restsUntil = restsUntil
      }
    },
    async left(workerIds) {
      for (const workerId of workerIds) {
        for (const jobId of known.get(workerId)?.running.keys() ?? []) byJob.delete(jobId)
        known.delete(workerId)
      }
      await writing
    },
    close() {
      clearInterval(timer)
      timer = undefined
      known.clear()
      byJob.clear()
    },
  }
}

function startTimer(look: () => void): ReturnType<typeof setInterval> {
  const timer = setInterval(look, membershipTimes.pollMs)
  timer.unref()
  return timer
}

/** A program that claims. */
class Claimer {
  readonly ref: WorkerRef
  readonly #startedAt = performance.now()
  /** By job. Leases are of the store's clock; that of this host decides only how long a job is shown. */
  readonly running = new Map<string, { readonly kind: string; readonly since: number; leaseEndsAt: number }>()
  readonly #queues = new Set<string>()
  #kinds: Set<string> | null = new Set()
  /** When it is no longer listed, unless it claims again. */
  until = 0
  restsUntil = 0
  isListed = false
  writtenAt = 0
  wanted: WantedMode = 'run'

  constructor(workerId: string) {
    this.ref = { id: workerId, session }
  }

  /** A program may claim by turns from several queues, or several kinds: all that it asked for count. */
  takes(queues: readonly string[], kinds: readonly string[] | undefined): void {
    const before = this.#queues.size + (this.#kinds?.size ?? -1)
    for (const queue of queues) if (this.#queues.size < maxNames) this.#queues.add(queue)
    if (kinds === undefined) this.#kinds = null
    else for (const kind of kinds) if ((this.#kinds?.size ?? maxNames) < maxNames) this.#kinds?.add(kind)
    // The row says what it takes: it is written anew.
    if (this.#queues.size + (this.#kinds?.size ?? -1) !== before) this.isListed = false
  }

  row(now: number): NewWorker {
    return {
      ...this.renewal(now),
      ...{ workerId: this.ref.id, via: 'http', host: null, pid: null, boot: session },
      ...{
        queues: [...this.#queues],
        kinds: this.#kinds && [...this.#kinds].sort(),
        schemas: {},
        concurrency: null,
      },
      ...{ release: null, version: null, ageMs: Math.round(now - this.#startedAt) },
    }
  }

  renewal(now: number): WorkerRenewal {
    this.writtenAt = now
    const running = [...this.running].slice(0, 20)
    return {
      ...this.ref,
      mode: this.wanted === 'run' ? 'running' : 'quiet',
      running: running.map(([id, { kind, since }]) => ({
        id,
        kind,
        ms: Math.max(0, Math.round(now - since)),
      })),
      runningCount: this.running.size,
    }
  }

  joined(took: boolean, now: number): void {
    this.isListed = took
    // It lists itself.
    if (!took) this.restsUntil = now + restMs
  }

  hear(standing: WorkerStanding, now: number): void {
    if (standing.status === 'here') {
      if (standing.wanted !== this.wanted) this.writtenAt = 0
      this.wanted = standing.wanted
      return
    }
    this.wanted = 'run'
    this.isListed = false
    if (standing.status === 'taken') this.restsUntil = now + restMs
  }

  forgetExpired(forget: (jobId: string) => void): void {
    const now = Date.now()
    for (const [jobId, { leaseEndsAt }] of this.running) {
      if (leaseEndsAt >= now) continue
      this.running.delete(jobId)
      forget(jobId)
    }
  }
}
