import { SignalboxError } from '../core/errors.ts'

/** The errors of transactions that are the same on every engine. */

export function leaseLost(jobId: string, cause?: unknown): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `Job "${jobId}" is no longer held with this token: it ended, its lease ran out, or another worker has it. Nothing was written.`,
    { details: { jobId }, ...(cause === undefined ? {} : { cause }) },
  )
}

/** `why`: why the engine cannot wait longer, after a colon. */
export function tookTooLong(timeoutMs: number, why = ''): SignalboxError {
  return new SignalboxError(
    'transaction_timeout',
    `The transaction took longer than ${timeoutMs} ms and was rolled back${why}. Do slow work before it, or raise transactionTimeoutMs.`,
    { details: { timeoutMs } },
  )
}
