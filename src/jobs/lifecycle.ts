import { type Backoff, backoffMs } from '../core/backoff.ts'
import type { Verdict } from './job-store.ts'

/** What came of an attempt. Results and errors are JSON text already. */
export type Outcome =
  | { readonly kind: 'returned'; readonly result: string | null }
  /** The handler failed. `retryInMs` or `backoff` overrules the job's back-off, `dead` the attempts that are left. */
  | {
      readonly kind: 'threw'
      readonly error: string
      readonly retryInMs?: number
      readonly backoff?: Partial<Backoff> | undefined
      readonly dead?: boolean
    }
  /** Nobody's fault: a deploy, or the store's trouble. The attempt is given back. */
  | { readonly kind: 'interrupted'; readonly delayMs: number }
  /** Not yet: back in line after that time, as if it had not been claimed. As often as it likes. */
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'cancelled'; readonly error: string | null }

/** What judging needs to know of a job. */
export interface Judged {
  readonly id: string
  readonly token: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly freeCount: number
  readonly backoff: Backoff
}

/** After so many hand-backs an attempt counts, or a job that always outlives its worker's deploys would go round for ever. */
export const maxFree = 10

/**
 * What a snooze adds to `freeCount`. Stores keep that one number as it is: its sixteens are snoozes, which have no limit,
 * and the rest are hand-backs, of which there are never more than `maxFree`.
 */
export const snoozeStep = 16
/** The most that every store's column holds. */
const maxFreeCount = 2 ** 31 - 1

/** How often a job was snoozed, by its `freeCount`. */
export function snoozesIn(freeCount: number): number {
  return Math.floor(freeCount / snoozeStep)
}

export const backoffDefaults: Backoff = { baseMs: 2_000, factor: 2, jitter: 0.2, maxMs: 3_600_000 }

const handedBack: string = JSON.stringify({
  code: 'handed_back',
  message: `It was handed back by stopping workers more than ${maxFree} times, and no attempts are left.`,
})

/** What becomes of a job. Stores write the verdict; they never second-guess it. */
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
      const backoff = outcome.backoff === undefined ? job.backoff : { ...job.backoff, ...outcome.backoff }
      const delayMs = retryInMs ?? Math.round(backoffMs(backoff, job.attempt, random))
      return verdict(job, 'scheduled', ranMs, { error, delayMs })
    }
    case 'interrupted': {
      const { delayMs } = outcome
      const isFree = job.freeCount % snoozeStep < maxFree
      if (!isFree && exhausted) return verdict(job, 'dead', ranMs, { error: handedBack })
      const attempt = isFree ? job.attempt - 1 : job.attempt
      const freeCount = isFree ? job.freeCount + 1 : job.freeCount
      return verdict(job, delayMs > 0 ? 'scheduled' : 'ready', ranMs, { delayMs, attempt, freeCount })
    }
    case 'snoozed': {
      const { delayMs } = outcome
      const snoozed = job.freeCount + snoozeStep
      const freeCount = snoozed > maxFreeCount ? job.freeCount : snoozed
      return verdict(job, 'scheduled', ranMs, { delayMs, attempt: job.attempt - 1, freeCount })
    }
    case 'cancelled':
      return verdict(job, 'cancelled', ranMs, { error: outcome.error })
  }
}

/** Field by field and without spreading: it is made for every job. */
function verdict(
  job: Judged,
  state: Verdict['state'],
  ranMs: number | null,
  {
    attempt = job.attempt,
    freeCount = job.freeCount,
    delayMs = 0,
    result = null,
    error = null,
  }: Partial<Verdict>,
): Verdict {
  return { jobId: job.id, token: job.token, state, attempt, freeCount, delayMs, ranMs, result, error }
}
