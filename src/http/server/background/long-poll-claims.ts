import { type Clock, systemClock } from '../../../core/clock.ts'
import { whole, withDefaults } from '../../../core/options.ts'
import { type JobsNotifier, queueTopic } from '../../../jobs/index.ts'
import type { ClaimWait, LongPollClaims } from '../call.ts'

/** How waiting claims are looked after. */
export interface LongPollClaimsOptions {
  /** How often a claim queue polls without a wake-up, give or take a quarter. @default 1_000 */
  readonly pollMs?: number
  /** How long a claim that is under way when its time is over may still bring jobs. @default 2_000 */
  readonly lateMs?: number
  readonly clock?: Clock
  readonly random?: () => number
}

export const longPollClaimsDefaults: Required<LongPollClaimsOptions> = {
  pollMs: 1_000,
  lateMs: 2_000,
  clock: systemClock,
  random: Math.random,
}

/** Makes the long-poll claims of one namespace, over its notifier. */
export function createLongPollClaims(
  notifier: JobsNotifier,
  options?: LongPollClaimsOptions,
): LongPollClaims {
  const given = withDefaults<Required<LongPollClaimsOptions>>(
    'createLongPollClaims',
    options,
    longPollClaimsDefaults,
  )
  whole('createLongPollClaims.pollMs', given.pollMs, { min: 1, max: 2 ** 31 - 1 })
  whole('createLongPollClaims.lateMs', given.lateMs, { max: 2 ** 31 - 1 })
  const lines = new Map<string, ClaimQueue>()
  let isClosed = false

  function lineOf(queues: readonly string[], kinds: readonly string[] | undefined): ClaimQueue {
    const topics = [...new Set(queues)].sort().map(queueTopic)
    const key = JSON.stringify([topics, kinds && [...new Set(kinds)].sort()])
    const found = lines.get(key)
    if (found) return found
    const line = new ClaimQueue(notifier, topics, given, () => lines.delete(key))
    lines.set(key, line)
    return line
  }

  return {
    async wait(request, waitMs, signal, claim) {
      if (signal.aborted) return []
      // A claim without waiting joins no queue, and after `close` no claim waits.
      if (waitMs <= 0 || isClosed) return claimOnce(request, signal, claim)
      return lineOf(request.queues, request.kinds).wait(request, waitMs, signal, claim)
    },
    close() {
      isClosed = true
      for (const line of [...lines.values()]) line.close()
    },
  }
}

async function claimOnce<Claimed>(
  { giveBack }: ClaimWait<Claimed>,
  signal: AbortSignal,
  claim: () => Promise<readonly Claimed[]>,
): Promise<readonly Claimed[]> {
  const jobs = await claim()
  if (!signal.aborted || jobs.length === 0 || giveBack === undefined) return jobs
  // If that fails, the lease runs out, and then the job is ready again.
  await giveBack(jobs).catch(() => undefined)
  return []
}

/** The settings of a claim queue. */
export interface ClaimQueueOptions {
  readonly pollMs: number
  readonly lateMs: number
  readonly clock: Clock
  readonly random: () => number
}

/**
 * The claims that wait for the same jobs, in the order they came.
 *
 *     wake-up, poll or newcomer ──▶ the head claims ── got jobs ──▶ it leaves; the next one claims, for there may be more
 *                                                ├─ got none ──▶ all go on waiting
 *                                                └─ failed ────▶ it leaves with the error; the next one looks soon
 *
 * So a wake-up costs one claim more than there are jobs, however many wait. While one claim after the other brings jobs,
 * more of them run at a time, up to 16. A newcomer claims at once when no idle claim waits before it, so where there is
 * work for all, no claim waits for another. Otherwise it counts as a wake-up, and the oldest waiter gets the jobs that
 * are there. Wake-ups during a claim become one more claim after it.
 *
 * A waiter leaves at once when its time is over or its client has gone, also during its claim, and delays no other. If
 * it was only late, it still gets the claimed jobs. If its client has gone, the jobs are given back.
 */
export class ClaimQueue {
  readonly #notifier: JobsNotifier
  readonly #topics: readonly string[]
  readonly #options: ClaimQueueOptions
  readonly #onDissolved: () => void
  readonly #unlisten: () => void
  /** A set keeps the order, and lets go of one in the middle in constant time. */
  readonly #waiters = new Set<Waiter>()
  /** Those of them whose claim is under way. */
  readonly #claimers = new Set<Waiter>()
  /** Claims in a row that brought jobs. */
  #streak = 0
  /** There was a wake-up since the last claim began. */
  #lookAgain = false
  /** For the next poll; there is always one. */
  #timer: unknown

  constructor(
    notifier: JobsNotifier,
    topics: readonly string[],
    options: ClaimQueueOptions,
    onDissolved: () => void,
  ) {
    this.#notifier = notifier
    this.#topics = topics
    this.#options = options
    this.#onDissolved = onDissolved
    this.#unlisten = listenTo(notifier, topics, () => this.#look())
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
        // What its claim is about to bring is not to be thrown away for a few milliseconds.
        timer = clock.setTimeout(go, lateMs)
        this.#leave(waiter)
      } else go()
    }
    let timer = clock.setTimeout(expire, waitMs)
    signal.addEventListener('abort', go)
    const isAnyoneIdle = this.#waiters.size > this.#claimers.size
    this.#waiters.add(waiter)
    if (isAnyoneIdle) this.#look()
    else void this.#claimFor(waiter)
    return promise
  }

  /** Lets everybody go; those whose claim is under way get what it brings. */
  close(): void {
    for (const waiter of [...this.#waiters]) {
      this.#waiters.delete(waiter)
      if (!this.#claimers.delete(waiter)) waiter.settle(nothing)
    }
    this.#dissolve()
  }

  /** There may be a job. */
  #look(): void {
    const width = this.#streak < 2 ? 1 : Math.min(2 ** (this.#streak - 1), maxWidth)
    if (this.#claimers.size >= width) {
      this.#lookAgain = true
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

  #lookLater(ms: number): void {
    const { clock, random } = this.#options
    clock.clearTimeout(this.#timer)
    this.#timer = clock.setTimeout(() => this.#poll(), ms * (0.75 + random() / 2))
    ;(this.#timer as { unref?(): void }).unref?.()
  }

  /** Does not wait for running claims: one that hangs must not keep the others from looking. */
  #poll(): void {
    // A client that works off a queue comes back soon; until then the empty claim queue keeps listening.
    if (this.#waiters.size === 0) {
      this.#dissolve()
      return
    }
    this.#lookLater(this.#options.pollMs)
    this.#startClaims(1)
  }

  /** Never rejects. */
  async #claimFor(waiter: Waiter): Promise<void> {
    this.#claimers.add(waiter)
    this.#lookAgain = false
    this.#lookLater(this.#options.pollMs)
    const outcome = await outcomeOf(waiter)
    // It may have left meanwhile; then another claim is the head of the queue.
    if (this.#claimers.delete(waiter)) this.#goOn(waiter, outcome)
    else if (!waiter.isGone) waiter.settle(outcome)
    else if ('jobs' in outcome && outcome.jobs.length > 0) await this.#giveBack(waiter, outcome.jobs)
  }

  #goOn(waiter: Waiter, outcome: Outcome): void {
    const { pollMs } = this.#options
    const gotNone = 'jobs' in outcome && outcome.jobs.length === 0
    const gotJobs = 'jobs' in outcome && !gotNone
    this.#streak = gotJobs ? this.#streak + 1 : 0
    if (!gotNone) {
      this.#waiters.delete(waiter)
      waiter.settle(outcome)
    }
    if (gotJobs || this.#lookAgain) this.#look()
    // When it failed, the next one finds out whether that is its trouble too, but not all of them at once.
    else this.#lookLater(gotNone ? pollMs : pollMs / 10)
  }

  #leave(waiter: Waiter): void {
    this.#waiters.delete(waiter)
    // The wake-up that its claim was for is not to be lost with it.
    if (this.#claimers.delete(waiter)) this.#look()
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
      // Then the lease runs out, and the job is ready again.
    }
  }
}

/** How many claims of one queue run at a time; newcomers that find no idle claim come on top. */
const maxWidth = 16

/** One who waits. */
interface Waiter {
  readonly claim: () => Promise<readonly unknown[]>
  readonly giveBack: ((jobs: readonly unknown[]) => Promise<unknown>) | undefined
  /** It has its answer; later results are ignored. */
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

function listenTo(notifier: JobsNotifier, topics: readonly string[], heard: () => void): () => void {
  try {
    return notifier.listen(topics, heard)
  } catch {
    // A closed notifier wakes no listener; the claim itself says what is the matter.
    return () => {}
  }
}
