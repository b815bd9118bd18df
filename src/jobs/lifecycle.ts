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
  readonly handBackCount: number
  readonly snoozeCount: number
  readonly backoff: Backoff
}

/** After so many hand-backs an attempt counts, or a job that always outlives its worker's deploys would go round for ever. */
export const maxFree = 10

/** The most that every store's column holds. A job may be snoozed more often; the count stays there. */
const maxSnoozeCount = 2 ** 31 - 1

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

/** Field by field and without spreading: it is made for every job. */
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
