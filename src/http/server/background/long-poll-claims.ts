import { type Clock, systemClock } from '../../../core/clock.ts'
import { type JobsNotifier, queueTopic } from '../../../jobs/index.ts'

/** The jobs for which a claim waits. */
interface ClaimWait<Claimed = unknown> {
  readonly queues: readonly string[]
  /** Undefined: any kind. */
  readonly kinds: readonly string[] | undefined
  /** Returns jobs that were claimed after their client left. */
  readonly giveBack?: (jobs: readonly Claimed[]) => Promise<unknown>
}

interface LongPollClaimsOptions {
  /** How often a claim queue polls without a wake-up, give or take a quarter. @default 1_000 */
  readonly pollMs?: number
  /** How long a claim may still bring jobs after its wait has ended. @default 2_000 */
  readonly lateMs?: number
  readonly clock?: Clock
  readonly random?: () => number
}

/**
 * The claims that wait at the server, in one namespace. Claims for the same queues and kinds wait in one claim queue. A
 * wake-up runs one claim, for the first of them, so its cost does not grow with the number of waiters.
 */
export class LongPollClaims {
  readonly #notifier: JobsNotifier
  readonly #options: Required<LongPollClaimsOptions>
  readonly #claimQueues = new Map<string, ClaimQueue>()
  #isClosed = false

  constructor(
    notifier: JobsNotifier,
    { pollMs = 1_000, lateMs = 2_000, clock = systemClock, random = Math.random }: LongPollClaimsOptions = {},
  ) {
    this.#notifier = notifier
    this.#options = { pollMs, lateMs, clock, random }
  }

  /**
   * Calls `claim` at once if no other claim waits before it. Then calls it in turn whenever a job may be ready, until
   * it returns jobs. Returns `[]` after `waitMs`. Does not claim for a client that left.
   */
  async wait<Claimed>(
    request: ClaimWait<Claimed>,
    waitMs: number,
    signal: AbortSignal,
    claim: () => Promise<readonly Claimed[]>,
  ): Promise<readonly Claimed[]> {
    if (signal.aborted) return []
    // A claim without a wait joins no queue. After `close`, no claim waits.
    if (waitMs <= 0 || this.#isClosed) return claimOnce(request, signal, claim)
    return this.#claimQueueOf(request).wait(request, waitMs, signal, claim)
  }

  /** Ends all waits with what they have, because the server shuts down. */
  close(): void {
    this.#isClosed = true
    for (const queue of [...this.#claimQueues.values()]) queue.close()
  }

  #claimQueueOf({ queues, kinds }: Pick<ClaimWait, 'queues' | 'kinds'>): ClaimQueue {
    const topics = [...new Set(queues)].sort().map(queueTopic)
    const key = JSON.stringify([topics, kinds && [...new Set(kinds)].sort()])
    const found = this.#claimQueues.get(key)
    if (found) return found
    const created = new ClaimQueue(this.#notifier, topics, this.#options, () => this.#claimQueues.delete(key))
    this.#claimQueues.set(key, created)
    return created
  }
}

async function claimOnce<Claimed>(
  { giveBack }: ClaimWait<Claimed>,
  signal: AbortSignal,
  claim: () => Promise<readonly Claimed[]>,
): Promise<readonly Claimed[]> {
  const jobs = await claim()
  if (!signal.aborted || jobs.length === 0 || giveBack === undefined) return jobs
  // If that fails, the lease ends, and then the job is ready again.
  await giveBack(jobs).catch(() => undefined)
  return []
}

/**
 * The claims that wait for the same jobs, in the order of their arrival.
 *
 *     wake-up, poll or newcomer ──▶ the first waiter claims ── got jobs ──▶ it leaves; the next one claims: more jobs may be ready
 *                                                ├─ got none ──▶ all continue to wait
 *                                                └─ failed ────▶ it leaves with the error; the next one claims soon
 *
 * So a wake-up costs one claim more than there are jobs, however many wait. While consecutive claims bring jobs, more
 * claims run at a time, up to 16. A newcomer claims at once when no idle claim waits before it. So with jobs for all, no
 * claim waits for another. Otherwise the newcomer counts as a wake-up, and the oldest waiter gets the present jobs.
 * Wake-ups during a claim become one more claim after it.
 *
 * A waiter leaves at once when its time is over or its client has left, also during its claim, and delays no other. If
 * it was only late, it still gets the claimed jobs. If its client has left, the claim queue returns the jobs.
 */
class ClaimQueue {
  readonly #notifier: JobsNotifier
  readonly #topics: readonly string[]
  readonly #options: Required<LongPollClaimsOptions>
  readonly #onDissolved: () => void
  readonly #unlisten: () => void
  /** A set keeps the order, and removes any waiter in constant time. */
  readonly #waiters = new Set<Waiter>()
  /** The waiters whose claims are in flight. */
  readonly #claimers = new Set<Waiter>()
  /** The number of consecutive claims that brought jobs. */
  #streak = 0
  /** A wake-up arrived after the last claim began. */
  #mustClaimAgain = false
  /** The timer of the next poll, which always runs. */
  #timer: unknown

  constructor(
    notifier: JobsNotifier,
    topics: readonly string[],
    options: Required<LongPollClaimsOptions>,
    onDissolved: () => void,
  ) {
    this.#notifier = notifier
    this.#topics = topics
    this.#options = options
    this.#onDissolved = onDissolved
    this.#unlisten = listenTo(notifier, topics, () => this.#claim())
  }

  wait<Claimed>(
    { giveBack }: ClaimWait<Claimed>,
    waitMs: number,
    signal: AbortSignal,
    claim: () => Promise<readonly Claimed[]>,
  ): Promise<readonly Claimed[]> {
    const { clock, lateMs } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<readonly Claimed[]>()
    const waiter: Waiter = {
      claim,
      giveBack: giveBack as Waiter['giveBack'],
      isGone: false,
      settle(outcome) {
        clock.clearTimeout(timer)
        signal.removeEventListener('abort', go)
        if ('error' in outcome) reject(outcome.error)
        else resolve(outcome.jobs as readonly Claimed[])
      },
    }
    const go = () => {
      waiter.isGone = true
      this.#leave(waiter)
      waiter.settle(nothing)
    }
    const expire = () => {
      if (this.#claimers.has(waiter)) {
        // The claim may bring jobs within a few milliseconds.
        timer = clock.setTimeout(go, lateMs)
        this.#leave(waiter)
      } else go()
    }
    let timer = clock.setTimeout(expire, waitMs)
    signal.addEventListener('abort', go)
    const hasIdleWaiter = this.#waiters.size > this.#claimers.size
    this.#waiters.add(waiter)
    if (hasIdleWaiter) this.#claim()
    else void this.#claimFor(waiter)
    return promise
  }

  /** Ends all waits. A waiter whose claim is in flight gets the jobs of its claim. */
  close(): void {
    for (const waiter of [...this.#waiters]) {
      this.#waiters.delete(waiter)
      if (!this.#claimers.delete(waiter)) waiter.settle(nothing)
    }
    this.#dissolve()
  }

  /** Begins claims, because a job may be ready. */
  #claim(): void {
    const width = this.#streak < 2 ? 1 : Math.min(2 ** (this.#streak - 1), maxWidth)
    if (this.#claimers.size >= width) {
      this.#mustClaimAgain = true
      return
    }
    this.#startClaims(width - this.#claimers.size)
  }

  #startClaims(count: number): void {
    let left = count
    for (const waiter of this.#waiters) {
      if (this.#claimers.has(waiter)) continue
      void this.#claimFor(waiter)
      if (--left === 0) break
    }
  }

  #pollLater(ms: number): void {
    const { clock, random } = this.#options
    clock.clearTimeout(this.#timer)
    this.#timer = clock.setTimeout(() => this.#poll(), ms * (0.75 + random() / 2))
    ;(this.#timer as { unref?(): void }).unref?.()
  }

  /** Does not wait for claims in flight: one that hangs must not stop the others. */
  #poll(): void {
    // A client that works off a queue comes back soon; until then the empty claim queue keeps listening.
    if (this.#waiters.size === 0) {
      this.#dissolve()
      return
    }
    this.#pollLater(this.#options.pollMs)
    this.#startClaims(1)
  }

  /** Never rejects. */
  async #claimFor(waiter: Waiter): Promise<void> {
    this.#claimers.add(waiter)
    this.#mustClaimAgain = false
    this.#pollLater(this.#options.pollMs)
    const outcome = await outcomeOf(waiter)
    // The waiter may have left meanwhile. Then another claim is the first.
    if (this.#claimers.delete(waiter)) this.#claimed(waiter, outcome)
    else if (!waiter.isGone) waiter.settle(outcome)
    else if ('jobs' in outcome && outcome.jobs.length > 0) await this.#giveBack(waiter, outcome.jobs)
  }

  #claimed(waiter: Waiter, outcome: Outcome): void {
    const { pollMs } = this.#options
    const gotNone = 'jobs' in outcome && outcome.jobs.length === 0
    const gotJobs = 'jobs' in outcome && !gotNone
    this.#streak = gotJobs ? this.#streak + 1 : 0
    if (!gotNone) {
      this.#waiters.delete(waiter)
      waiter.settle(outcome)
    }
    if (gotJobs || this.#mustClaimAgain) this.#claim()
    // After a failure, the next waiter tries soon; they do not all try at once.
    else this.#pollLater(gotNone ? pollMs : pollMs / 10)
  }

  #leave(waiter: Waiter): void {
    this.#waiters.delete(waiter)
    // Its claim may have been the answer to a wake-up, so another waiter claims.
    if (this.#claimers.delete(waiter)) this.#claim()
  }

  #dissolve(): void {
    this.#unlisten()
    this.#options.clock.clearTimeout(this.#timer)
    this.#onDissolved()
  }

  async #giveBack({ giveBack }: Waiter, jobs: readonly unknown[]): Promise<void> {
    if (giveBack === undefined) return
    try {
      await giveBack(jobs)
      for (const topic of this.#topics) this.#notifier.wake(topic)
    } catch {
      // The lease ends, and then the job is ready again.
    }
  }
}

/** How many claims of one claim queue run at a time, besides those of newcomers that find no idle claim. */
const maxWidth = 16

interface Waiter {
  readonly claim: () => Promise<readonly unknown[]>
  readonly giveBack: ((jobs: readonly unknown[]) => Promise<unknown>) | undefined
  /** The waiter has its answer. Later results are ignored. */
  isGone: boolean
  settle(outcome: Outcome): void
}

type Outcome = { readonly jobs: readonly unknown[] } | { readonly error: unknown }

const nothing: Outcome = { jobs: [] }

async function outcomeOf({ claim }: Waiter): Promise<Outcome> {
  try {
    return { jobs: await claim() }
  } catch (error) {
    return { error }
  }
}

function listenTo(notifier: JobsNotifier, topics: readonly string[], onWakeUp: () => void): () => void {
  try {
    return notifier.listen(topics, onWakeUp)
  } catch {
    // A closed notifier wakes no listener. The claim itself reports the error.
    return () => {}
  }
}
