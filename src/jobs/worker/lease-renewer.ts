import type { JobStore, LeaseRef } from '../job-store.ts'
import type { Attempt } from './attempt.ts'

/**
 * Keeps the leases of everything a worker holds, in one statement for all of them, and learns what became of the rest:
 * a lease that was not renewed is lost, one whose time is over by this process's own clock is given up unasked, and a
 * cancellation request reaches the handler's signal.
 */
export interface LeaseRenewer {
  renew(): Promise<void>
  /** Gives up what must have run out by now, and finds the jobs with a cancellation request. */
  checkExpired(): Promise<void>
}

export interface LeaseRenewerParts {
  readonly store: Pick<JobStore, 'renew' | 'cancelRequests'>
  readonly leaseMs: number
  readonly held: Iterable<Attempt>
  readonly running: ReadonlySet<Attempt>
  /** The lease is not ours any more. */
  readonly lose: (attempt: Attempt) => void
}

/** Younger attempts are not asked about: most end sooner, and a cancellation request may take a second to arrive. */
const youngMs = 250

export function createLeaseRenewer({ store, leaseMs, held, running, lose }: LeaseRenewerParts): LeaseRenewer {
  return {
    async renew() {
      const attempts = [...held].filter((attempt) => !attempt.isEnded)
      if (attempts.length === 0) return
      await renewLeases(attempts, {
        ...{ store, leaseMs, lose, cancel: (attempt) => attempt.cancel() },
        // Acked in a transaction, its row may be gone already; the handler, or the transaction, will say.
        isEnding: ({ pledged, openTransaction }) => Boolean(pledged ?? openTransaction),
      })
    },

    async checkExpired() {
      const now = performance.now()
      const asked: Attempt[] = []
      for (const attempt of held) {
        if (attempt.isEnded) continue
        if (attempt.leaseUntil < now && !attempt.pledged) lose(attempt)
        else if (running.has(attempt) && now - attempt.begunAt > youngMs) asked.push(attempt)
      }
      if (asked.length === 0) return
      for (const attempt of await findCancelled(store, asked)) attempt.cancel()
    },
  }
}

/** A lease that this process holds. */
export interface HeldLease extends LeaseRef {
  /** Up to when it surely holds, by the process's monotonic clock. */
  leaseUntil: number
}

/** How leases are renewed. */
export interface RenewParts<Held> {
  readonly store: Pick<JobStore, 'renew'>
  readonly leaseMs: number
  /** Its end is being written, so the store may not know the lease any more: it is not lost. */
  readonly isEnding: (held: Held) => boolean
  readonly lose: (held: Held) => void
  readonly cancel: (held: Held) => void
}

/** Renews leases in one statement. A lease that the store did not renew is lost. */
export async function renewLeases<Held extends HeldLease>(
  leases: readonly Held[],
  { store, leaseMs, isEnding, lose, cancel }: RenewParts<Held>,
): Promise<void> {
  const sentAt = performance.now()
  const renewals = await store.renew(leases, leaseMs)
  const byLease = new Map(renewals.map((renewal) => [`${renewal.jobId} ${renewal.token}`, renewal]))
  for (const held of leases) {
    const renewal = byLease.get(`${held.jobId} ${held.token}`)
    if (renewal === undefined) {
      if (!isEnding(held)) lose(held)
      continue
    }
    // A renewal that was given up may answer after the one that took its place.
    held.leaseUntil = Math.max(held.leaseUntil, sentAt + leaseMs)
    if (renewal.cancelRequested) cancel(held)
  }
}

/** Those of the leases whose jobs have a cancellation request. */
export async function findCancelled<Held extends LeaseRef>(
  store: Pick<JobStore, 'cancelRequests'>,
  leases: readonly Held[],
): Promise<readonly Held[]> {
  const cancelled = new Set(await store.cancelRequests(leases))
  return leases.filter(({ jobId }) => cancelled.has(jobId))
}
