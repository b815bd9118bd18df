import { type Backoff, backoffMs, resolveBackoff } from '../core/backoff.ts'
import type { Verdict } from './job-store.ts'

/** The outcome of an attempt. Results and errors are JSON text. */
export type Outcome =
  | { readonly kind: 'returned'; readonly result: string | null }
  /**
   * The handler failed. `retryInMs` or `backoff` replaces the job's back-off; `dead` ends it although attempts are
   * left.
   */
  | {
      readonly kind: 'threw'
      readonly error: string
      readonly retryInMs?: number
      readonly backoff?: Partial<Backoff> | undefined
      readonly dead?: boolean
    }
  /** A deploy, or an error of the store, interrupted the attempt. The attempt does not count. */
  | { readonly kind: 'interrupted'; readonly delayMs: number }
  /** The job is ready again after that time, as if it had not been claimed. This may happen any number of times. */
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'cancelled'; readonly error: string | null }

/** The fields that `judge` reads. A claimed record has all of them. */
export interface Judged {
  readonly id: string
  readonly token: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly handBackCount: number
  readonly snoozeCount: number
  /** An object, or the stored text. */
  readonly backoff: Backoff | string | null
}

/**
 * The hand-backs that use up no attempt. Later hand-backs use up one: otherwise a job that runs longer than the time
 * between deploys would never end.
 */
export const maxFree = 10

/** The largest value of the column. Further snoozes do not change the count. */
const maxSnoozeCount = 2 ** 31 - 1

export const backoffDefaults: Backoff = { baseMs: 2_000, factor: 2, jitter: 0.2, maxMs: 3_600_000 }

const handedBack: string = JSON.stringify({
  code: 'handed_back',
  message: `It was handed back by stopping workers more than ${maxFree} times, and no attempts are left.`,
})

/** Decodes a stored back-off. A damaged row gets the defaults: a store refuses the whole write for one bad delay. */
export function decodeBackoff(text: string | null): Backoff {
  if (text === null) return backoffDefaults
  try {
    return resolveBackoff('backoff', JSON.parse(text) as Partial<Backoff>, backoffDefaults)
  } catch {
    return backoffDefaults
  }
}

/** Decides what happens to a job after an attempt. Stores write the verdict and never change it. */
export function judge(
  job: Judged,
  outcome: Outcome,
  ranMs: number | null = null,
  random: () => number = Math.random,
): Verdict {
  const exhausted = job.attempt >= job.maxAttempts
  switch (outcome.kind) {
    case 'returned':
      return verdict(job, 'completed', ranMs, { result: outcome.result })
    case 'threw': {
      const { error, retryInMs, dead } = outcome
      if (dead === true || exhausted) return verdict(job, 'dead', ranMs, { error })
      const own =
        typeof job.backoff === 'object' && job.backoff !== null ? job.backoff : decodeBackoff(job.backoff)
      const backoff = { ...own, ...outcome.backoff }
      const delayMs = retryInMs ?? Math.round(backoffMs(backoff, job.attempt, random))
      return verdict(job, 'scheduled', ranMs, { error, delayMs })
    }
    case 'interrupted': {
      const { delayMs } = outcome
      const isFree = job.handBackCount < maxFree
      if (!isFree && exhausted) return verdict(job, 'dead', ranMs, { error: handedBack })
      const attempt = isFree ? job.attempt - 1 : job.attempt
      const handBackCount = isFree ? job.handBackCount + 1 : job.handBackCount
      return verdict(job, delayMs > 0 ? 'scheduled' : 'ready', ranMs, { delayMs, attempt, handBackCount })
    }
    case 'snoozed': {
      const { delayMs } = outcome
      const snoozeCount = Math.min(job.snoozeCount + 1, maxSnoozeCount)
      return verdict(job, 'scheduled', ranMs, { delayMs, attempt: job.attempt - 1, snoozeCount })
    }
    case 'cancelled':
      return verdict(job, 'cancelled', ranMs, { error: outcome.error })
  }
}

/** Lists the fields instead of spreading them, because it runs for every job. */
function verdict(
  job: Judged,
  state: Verdict['state'],
  ranMs: number | null,
  {
    attempt = job.attempt,
    handBackCount = job.handBackCount,
    snoozeCount = job.snoozeCount,
    delayMs = 0,
    result = null,
    error = null,
  }: Partial<Verdict>,
): Verdict {
  return {
    jobId: job.id,
    token: job.token,
    state,
    attempt,
    handBackCount,
    snoozeCount,
    delayMs,
    ranMs,
    result,
    error,
  }
}
