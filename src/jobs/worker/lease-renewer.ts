import type { JobStore, LeaseRef } from '../job-store.ts'
import type { Attempt } from './attempt.ts'

/**
 * Renews the leases of all attempts that a worker holds, with one statement. A lease that the store does not renew is
 * lost. A lease that expired by the clock of this process counts as lost without asking the store. A cancellation
 * request aborts the handler's signal.
 */
export interface LeaseRenewer {
  renew(): Promise<void>
  /** Gives up leases that expired by the clock of this process, and cancels jobs that have a cancellation request. */
  checkHeldAttempts(): Promise<void>
}

export interface LeaseRenewerParts {
  readonly store: Pick<JobStore, 'renew' | 'cancelRequests'>
  readonly leaseMs: number
  readonly held: Iterable<Attempt>
  readonly running: ReadonlySet<Attempt>
  /** The worker lost the lease. */
  readonly lose: (attempt: Attempt) => void
}

/** Younger attempts are not checked for requests: most end sooner, and a request may take a second to arrive. */
const youngMs = 250

export function createLeaseRenewer({ store, leaseMs, held, running, lose }: LeaseRenewerParts): LeaseRenewer {
  return {
    async renew() {
      const attempts = [...held].filter((attempt) => !attempt.isEnded)
      if (attempts.length === 0) return
      await renewLeases(attempts, {
        ...{ store, leaseMs, lose, cancel: (attempt) => attempt.cancel() },
        // An ack in a transaction may have ended the row already. The handler or the transaction finds out.
        isEnding: ({ unconfirmedVerdict, openTransaction }) => Boolean(unconfirmedVerdict ?? openTransaction),
      })
    },

    async checkHeldAttempts() {
      const now = performance.now()
      const candidates: Attempt[] = []
      for (const attempt of held) {
        if (attempt.isEnded) continue
        if (attempt.leaseUntil < now && !attempt.unconfirmedVerdict) lose(attempt)
        else if (running.has(attempt) && now - attempt.begunAt > youngMs) candidates.push(attempt)
      }
      if (candidates.length === 0) return
      for (const attempt of await findCancelled(store, candidates)) attempt.cancel()
    },
  }
}

/** A lease that this process holds. */
export interface HeldLease extends LeaseRef {
  /** The lease is valid at least until this time of the process's monotonic clock. */
  leaseUntil: number
}

/** What `renewLeases` needs. */
export interface RenewParts<Held> {
  readonly store: Pick<JobStore, 'renew'>
  readonly leaseMs: number
  /** A write of its end is in flight. The store may no longer have the lease, but it is not lost. */
  readonly isEnding: (held: Held) => boolean
  readonly lose: (held: Held) => void
  readonly cancel: (held: Held) => void
}

/** A unique name for a lease. Jobs that are claimed together may share a token, so the token alone is not enough. */
export function nameOfLease({ jobId, token }: LeaseRef): string {
  return `${jobId} ${token}`
}

/** Renews leases in one statement. A lease that the store did not renew is lost. */
export async function renewLeases<Held extends HeldLease>(
  leases: readonly Held[],
  { store, leaseMs, isEnding, lose, cancel }: RenewParts<Held>,
): Promise<void> {
  const sentAt = performance.now()
  const renewals = await store.renew(leases, leaseMs)
  const byLease = new Map(renewals.map((renewal) => [nameOfLease(renewal), renewal]))
  for (const held of leases) {
    const renewal = byLease.get(nameOfLease(held))
    if (renewal === undefined) {
      if (!isEnding(held)) lose(held)
      continue
    }
    // The loop may have replaced a renewal that hung, and the old one may answer last.
    held.leaseUntil = Math.max(held.leaseUntil, sentAt + leaseMs)
    if (renewal.cancelRequested) cancel(held)
  }
}

/** Returns the leases whose jobs have a cancellation request. */
export async function findCancelled<Held extends LeaseRef>(
  store: Pick<JobStore, 'cancelRequests'>,
  leases: readonly Held[],
): Promise<readonly Held[]> {
  const cancelled = new Set(await store.cancelRequests(leases))
  return leases.filter(({ jobId }) => cancelled.has(jobId))
}
