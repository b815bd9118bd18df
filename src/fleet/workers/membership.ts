import { randomBytes } from 'node:crypto'
import { patientClock, within } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createAlarm, createNotifier } from '../../core/notifier.ts'
import { boundRunning, membershipTimes, type WantedMode, workersTopic } from './fleet-worker.ts'
import type { NewWorker, WorkerRenewal, WorkerStanding, WorkerStore } from './worker-store.ts'

/**
 * Renews the rows of all workers of one box, and passes the requests of operators to them. One loop serves all workers,
 * with one call a step:
 *
 *     a worker started ──────────────▶ join    writes its row
 *     after 10 s, or after a change ─▶ renew   writes the running jobs, reads the requests
 *     after 1.5 s, or a wake-up ─────▶ wanted  reads the requests
 *
 * While wake-ups of other processes arrive, only a wake-up or a renewal reads the requests. If a wake-up is lost, the
 * next renewal finds the request.
 *
 * The membership never delays a worker: while the store does not answer, workers continue as before.
 */
export interface Membership {
  /** Lists a worker from now on. */
  join(member: Member): MemberHandle
}

export interface MemberHandle {
  /** The work of the worker changed: the loop writes its row soon. */
  changed(): void
  /** Deletes the row. Never rejects, and waits at most a second. */
  leave(): Promise<void>
}

/** A worker that the membership lists. */
export interface Member {
  readonly facts: MemberFacts
  /** Returns its present work. */
  look(): Pick<WorkerRenewal, 'mode' | 'running' | 'runningCount'>
  /** Called with each new request of an operator. */
  follow(wanted: WantedMode, graceMs: number | null): void
  /** Called when its row could not be written. */
  failed(error: unknown): void
}

/** The facts that do not change while a worker runs. */
export type MemberFacts = Pick<
  NewWorker,
  'workerId' | 'via' | 'host' | 'pid' | 'queues' | 'kinds' | 'schemas' | 'concurrency' | 'release' | 'version'
>

export interface MembershipParts {
  readonly store: WorkerStore
  readonly notifier: {
    listen(topics: readonly string[], heard: () => void): () => void
    hearsOthers?(): boolean
  }
}

/** The most workers in one call. */
const batchSize = 200
const leaveMs = 1_000
/** How often a process deletes old rows of workers that are gone. A server does it more often. */
const pruneMs = 3_600_000
const pruneBatch = 1_000
/** Distinguishes the workers of this process from workers of an earlier process with the same pid. */
const boot = randomBytes(9).toString('base64url')

export function createMembership({ store, notifier }: MembershipParts): Membership {
  const { leaseMs, pollMs, restMs } = membershipTimes
  const listed = new Set<ListedWorker>()
  const own = createNotifier()
  const alarm = createAlarm(() => own.wake())
  let readAt = Number.NEGATIVE_INFINITY
  let isWoken = false
  // A random start, so that processes that start together prune one after the other.
  let pruneAt = performance.now() + Math.random() * pruneMs
  let underWay: Promise<unknown> = Promise.resolve()
  let stopLoop: (() => void) | undefined

  async function step(): Promise<'more' | 'idle'> {
    const live = [...listed]
    const joining = live.filter(({ isJoined }) => !isJoined).slice(0, batchSize)
    if (joining.length > 0) {
      const rows = joining.map((one) => one.row())
      for (const [at, isWritten] of (await store.join(rows, leaseMs)).entries())
        joining[at]!.joined(isWritten)
      return 'more'
    }
    const now = performance.now()
    const isDue = live.some((one) => one.isDue(now))
    if (!isDue && !isWoken && notifier.hearsOthers?.()) return 'idle'
    // A wake-up right after a read waits.
    if (!isDue && readAt + restMs > now) {
      if (live.length > 0) alarm.set(readAt + restMs - now)
      return 'idle'
    }
    // If one row is due, the same call also writes the rows that are due soon.
    const writing = isDue ? live.filter((one) => one.isDueSoon(now)) : []
    readAt = now
    isWoken = false
    await inBatches(writing, (some) =>
      store.renew(
        some.map((one) => one.renewal()),
        leaseMs,
      ),
    )
    await inBatches(
      live.filter((one) => !writing.includes(one)),
      (some) => store.wanted(some.map(({ ref }) => ref)),
    )
    if (now >= pruneAt) {
      pruneAt = now + pruneMs
      await store.prune({ olderThanMs: membershipTimes.keepGoneMs, limit: pruneBatch })
    }
    return live.some(({ isJoined, isLeaving }) => !isJoined && !isLeaving) ? 'more' : 'idle'
  }

  async function inBatches(
    some: readonly ListedWorker[],
    ask: (batch: readonly ListedWorker[]) => Promise<readonly WorkerStanding[]>,
  ): Promise<void> {
    for (let at = 0; at < some.length; at += batchSize) {
      const batch = some.slice(at, at + batchSize)
      for (const [nr, standing] of (await ask(batch)).entries()) batch[nr]!.apply(standing)
    }
  }

  function startLoop(): () => void {
    const look = () => {
      isWoken = true
      own.wake()
    }
    const unlisten = notifier.listen([workersTopic], look)
    const loop: Loop = createLoop({
      name: 'jobs.membership',
      step() {
        const stepping = step()
        underWay = stepping.catch(() => undefined)
        return stepping
      },
      idleMs: pollMs,
      notifier: own,
      backoff: { baseMs: 200, maxMs: 2_000 },
      clock: patientClock,
    })
    loop.events.on('failed', ({ error, failureCount }) => {
      isWoken = true
      if (failureCount === 1) for (const { member } of listed) member.failed(error)
    })
    return () => {
      unlisten()
      alarm.clear()
      void loop.stop({ graceMs: 0 })
    }
  }

  return {
    join(member) {
      const one = new ListedWorker(member)
      listed.add(one)
      stopLoop ??= startLoop()
      own.wake()
      return {
        changed: () => {
          one.isChanged = true
          own.wake()
        },
        async leave() {
          if (one.isLeaving) return
          one.isLeaving = true
          listed.delete(one)
          if (listed.size === 0) {
            stopLoop?.()
            stopLoop = undefined
          }
          if (!one.wasSent) return
          // Wait for a running join, which would write the row again. Without an answer the lease expires by itself.
          const left = underWay.then(() => store.leave([one.ref])).catch(() => undefined)
          await within(leaveMs, left, () => undefined)
        },
      }
    },
  }
}

/** A listed worker, and the content of its row. */
class ListedWorker {
  readonly member: Member
  readonly #startedAt = performance.now()
  readonly #session = randomBytes(9).toString('base64url')
  #id: string
  #wanted: WantedMode = 'run'
  #writtenAt = Number.NEGATIVE_INFINITY
  /** The ids of the running jobs in its row. */
  #shown = ''
  isJoined = false
  /** Whether there may be a row. */
  wasSent = false
  isChanged = false
  isLeaving = false

  constructor(member: Member) {
    this.member = member
    this.#id = member.facts.workerId
  }

  get ref() {
    return { id: this.#id, session: this.#session }
  }

  row(): NewWorker {
    this.wasSent = true
    const ageMs = Math.round(performance.now() - this.#startedAt)
    return { ...this.member.facts, ...this.renewal(), boot, ageMs }
  }

  renewal(): WorkerRenewal {
    const { mode, running, runningCount } = this.member.look()
    const bounded = boundRunning(running)
    this.#writtenAt = performance.now()
    this.#shown = idsOf(bounded)
    this.isChanged = false
    return { ...this.ref, mode, running: bounded, runningCount }
  }

  joined(isWritten: boolean): void {
    this.isJoined = isWritten
    if (isWritten) return
    // Another live worker has the id: this worker gets the id with a suffix.
    this.#id = `${shortened(this.member.facts.workerId)}#${randomBytes(6).toString('hex').slice(0, 6)}`
  }

  /** Whether its row must be written again. */
  isDue(now: number): boolean {
    const { renewMs, changedMs, pollMs } = membershipTimes
    const ageMs = now - this.#writtenAt
    // One poll early, so that the time between two renewals stays below the limit.
    if (this.isChanged || ageMs >= renewMs - pollMs) return true
    return ageMs >= changedMs && idsOf(boundRunning(this.member.look().running)) !== this.#shown
  }

  isDueSoon(now: number): boolean {
    return this.isDue(now) || now - this.#writtenAt >= membershipTimes.renewMs / 2
  }

  apply(standing: WorkerStanding): void {
    if (this.isLeaving) return
    if (standing.status !== 'here') {
      this.isJoined = false
      if (standing.status === 'taken') this.joined(false)
      return
    }
    if (standing.wanted === this.#wanted) return
    this.#wanted = standing.wanted
    this.member.follow(standing.wanted, standing.graceMs)
  }
}

function idsOf(running: WorkerRenewal['running']): string {
  return running.map(({ id }) => id).join()
}

/** Leaves space for a suffix. */
function shortened(workerId: string): string {
  return [...workerId].slice(0, 184).join('')
}
