import { type Backoff, backoffMs } from '../core/backoff.ts'
import type { SignalboxError } from '../core/errors.ts'
import {
  createToken,
  forgetOnce,
  noteJob,
  pauseSchedule,
  type Route,
  releaseLock,
  removeSchedule,
  renewJob,
  renewOnce,
  reportChanges,
  resumeSchedule,
  revokeToken,
  setSchedule,
  submitTask,
  wakeQueue,
} from '../wire/index.ts'

/**
 * When to ask again. A request whose answer was lost may have been carried out, so it is repeated only where that does
 * no harm: it changes nothing, it says the same however often it is said, or it carries an Idempotency-Key, by which
 * the server gives the first outcome again. The wait between tries grows, and never outlives the call's deadline.
 */
export type Repetition = 'safe' | 'keyed' | 'never'

/** To say these twice is to say them once; a key would only be a row to keep for every renewal. */
const harmless: readonly string[] = [
  renewJob.id,
  wakeQueue.id,
  revokeToken.id,
  renewOnce.id,
  forgetOnce.id,
  setSchedule.id,
  removeSchedule.id,
  pauseSchedule.id,
  resumeSchedule.id,
  // The second time it is a duplicate.
  reportChanges.id,
  // A line may stand there twice, which costs less than a key for every word that handlers say.
  noteJob.id,
]

export function repetitionOf(route: Route): Repetition {
  if (!route.mutates || harmless.includes(route.id)) return 'safe'
  // Known by node and requestId; only a release that is said again cannot be told from one that came too late.
  if (route.room === 'locks') return route.id === releaseLock.id ? 'never' : 'safe'
  // A drain, a cordon, a pool, a cancel: to say it twice is to say it once.
  if (route.room === 'dispatch') return route.id === submitTask.id ? 'keyed' : 'safe'
  // Said again, a claim would meet itself, and a window its own beginning.
  if (route.room === 'once' || route.room === 'monitor') return 'never'
  // Its answer holds a secret, which is not kept to be given again.
  return route.id === createToken.id ? 'never' : 'keyed'
}

/** What one try came to. */
export type Try<Reply> =
  | { readonly ok: true; readonly reply: Reply }
  | {
      readonly ok: false
      readonly error: SignalboxError
      readonly passing: boolean
      readonly afterMs: number
    }

export interface RetryPlan {
  readonly retries: number
  readonly backoff: Backoff
  /** By `performance.now()`. */
  readonly deadline: number
  readonly signal: AbortSignal
}

/** Tries until it succeeds, fails for good, or there is no time left for another try; throws the last error. */
export async function retrying<Reply>(
  { retries, backoff, deadline, signal }: RetryPlan,
  attempt: () => Promise<Try<Reply>>,
): Promise<Reply> {
  for (let failureCount = 1; ; failureCount++) {
    const outcome = await attempt()
    if (outcome.ok) return outcome.reply
    const waitMs = Math.max(outcome.afterMs, backoffMs(backoff, failureCount))
    const isInTime = performance.now() + waitMs < deadline
    if (!outcome.passing || failureCount > retries || !isInTime) throw outcome.error
    await pause(waitMs, signal)
  }
}

/** Waits so long; rejects with the signal's reason when it aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const end = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end)
      resolve()
    }, Math.ceil(ms))
    signal.addEventListener('abort', end, { once: true })
  })
}

/** What a Retry-After header asks for: seconds, or a date. 0 when it says nothing that can be read. */
export function retryAfterMs(header: string | null, now: number = Date.now()): number {
  if (header === null) return 0
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000
  const at = Date.parse(header)
  return Number.isNaN(at) ? 0 : Math.max(0, at - now)
}
