import { SignalboxError } from '../core/errors.ts'

/** What everyone is told who acts on a job with a token that does not hold it. */
export function leaseLost(id: string): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `Job "${id}" is no longer held with this token: it ended, or its lease ran out and was lost. Nothing was written. If it ran out: raise leaseMs, renew sooner, or free the event loop.`,
    { details: { jobId: id } },
  )
}
