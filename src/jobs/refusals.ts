import { SignalboxError } from '../core/errors.ts'

/** Why a job could not be ended, or did not end as its handler meant; and what everyone is told whose token does not hold it. */
export function leaseLost(id: string): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `Job "${id}" is no longer held with this token: it ended, or its lease ran out and was lost. Nothing was written. If it ran out: raise leaseMs, renew sooner, or free the event loop.`,
    { details: { jobId: id } },
  )
}

export function timedOut(id: string, timeoutMs: number): SignalboxError {
  return new SignalboxError('timeout', `Job "${id}" took longer than its time-out of ${timeoutMs} ms.`)
}

export function ackMissing(id: string): SignalboxError {
  return new SignalboxError(
    'ack_missing',
    `The handler of job "${id}" must end it in a transaction, and returned without a committed ack or nack.`,
  )
}

export function rolledBack(id: string): SignalboxError {
  return new SignalboxError(
    'ack_missing',
    `The handler of job "${id}" acked it in its own transaction, which was rolled back or never committed.`,
  )
}
