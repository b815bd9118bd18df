import type { Clock } from '../../../core/clock.ts'
import type { JobsNotifier } from '../../../jobs/index.ts'
import type { ClaimWait } from '../call.ts'

/** How a line is looked after. */
export interface ClaimQueueOptions {
  readonly pollMs: number
  readonly lateMs: number
  readonly clock: Clock
  readonly random: () => number
}

/**
 * Everyone who waits for the same jobs, in the order they came.
 *
 *     wake-up, poll or newcomer ──▶ the head claims ── got jobs ──▶ it leaves; the next one claims, for there may be more
 *                                                ├─ got none ──▶ all go on waiting
 *                                                └─ failed ────▶ it leaves with the error; the next one looks soon
 *
 * So a wake-up costs one claim more than there are jobs, however many wait. While one claim after the other brings jobs,
 * more of them are under way at a time, up to 16. A newcomer claims at once when nobody stands idle before it, so
 * where there is work for all nobody waits for anybody; else it counts as a wake-up, and what is there when it comes goes
 * to whoever came first. Wake-ups during a claim become one more claim after it.
 *
 * Who leaves (its time is over, its client has gone) leaves at once, also in the middle of its claim; nobody waits for
 * that. If it was only late it still gets what the claim brings. If it has gone, jobs are given back.
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

  /** Waits for nobody: a claim that hangs must not keep the others from looking. */
  #poll(): void {
    // Whoever works off a queue comes back soon; so long the line is kept, and its ear at the notifier.
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
    // It may have left meanwhile, and then the line is the business of others.
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
      // The lease runs out then, and the job is back in line.
    }
  }
}

/** So many claims of one line are under way at a time; newcomers that find nobody idle come on top. */
const maxWidth = 16

/** One who waits. */
interface Waiter {
  readonly claim: () => Promise<readonly unknown[]>
  readonly giveBack: ((jobs: readonly unknown[]) => Promise<unknown>) | undefined
  /** It has had its answer, and what comes now is nobody's. */
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
