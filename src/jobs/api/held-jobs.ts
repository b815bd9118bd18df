import { SignalboxError } from '../../core/errors.ts'
import { text } from '../../core/options.ts'
import { decodeBackoff } from '../decode-job.ts'
import type { JobStore } from '../job-store.ts'
import type { Judged } from '../lifecycle.ts'
import type { Held } from './jobs-api.ts'

/** What judging the end of a job in hand needs to know of it. */
export interface JudgedHeld extends Judged {
  readonly cancelRequested: boolean
  /** Undefined: it is gone. */
  readonly queue: string | undefined
}

/** From the job itself, or from the store when only id and token were kept. Throws `invalid_argument`. */
export async function judgedOf(store: Pick<JobStore, 'find'>, job: Held): Promise<JudgedHeld> {
  const { id, token } = checkHeld(job)
  const { attempt, maxAttempts, handBackCount, snoozeCount, backoff, cancelRequested = false, queue } = job
  if (
    attempt !== undefined &&
    maxAttempts !== undefined &&
    handBackCount !== undefined &&
    snoozeCount !== undefined &&
    backoff !== undefined &&
    queue !== undefined
  ) {
    return { id, token, attempt, maxAttempts, handBackCount, snoozeCount, backoff, cancelRequested, queue }
  }
  // But for the cancellation request, none of these change while the lease lives, and without it nothing is written. So
  // any will do for a job that is gone, and what becomes of the verdict is the store's to say: a request made twice
  // gets its first answer, everyone else `lease_lost`.
  const record = (await store.find(id)) ?? gone
  return {
    id,
    token,
    attempt: record.attempt,
    maxAttempts: record.maxAttempts,
    handBackCount: record.handBackCount,
    snoozeCount: record.snoozeCount,
    backoff: decodeBackoff(record.backoff),
    cancelRequested: record.cancelRequested,
    queue: record.queue,
  }
}

const gone = {
  attempt: 1,
  maxAttempts: 1,
  handBackCount: 0,
  snoozeCount: 0,
  backoff: null,
  cancelRequested: false,
  queue: undefined,
}

/** The job, if it is one that somebody claimed. Throws `invalid_argument`. */
export function checkHeld(job: Held): Held {
  if (typeof job !== 'object' || job === null || typeof job.token !== 'string') {
    throw new SignalboxError(
      'invalid_argument',
      'This is not a claimed job: it needs the id and token that claim gave.',
    )
  }
  text('job.id', job.id)
  return job
}
