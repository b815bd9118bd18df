import type { JobStore } from '../job-store.ts'
import type { Attempt } from './attempt.ts'

/**
 * Keeps the leases of everything a worker holds, in one statement for all of them, and learns what became of the rest:
 * a lease that was not renewed is lost, one whose time is over by this process's own clock is given up unasked, and a
 * cancellation request reaches the handler's signal.
 */
export interface LeaseRenewer {
  renew(): Promise<void>
  /** Gives up what must have run out by now, and learns which jobs somebody wants cancelled. */
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
      const sentAt = performance.now()
      const renewals = await store.renew(attempts, leaseMs)
      const byLease = new Map(renewals.map((renewal) => [`${renewal.jobId} ${renewal.token}`, renewal]))
      for (const attempt of attempts) {
        const renewal = byLease.get(`${attempt.jobId} ${attempt.token}`)
        if (renewal === undefined) {
          // Acked in a transaction, its row may be gone already; the handler, or the transaction, will say.
          if (!attempt.pledged && !attempt.openTransaction) lose(attempt)
          continue
        }
        // A renewal that was given up may answer after the one that took its place.
        attempt.leaseUntil = Math.max(attempt.leaseUntil, sentAt + leaseMs)
        if (renewal.cancelRequested) attempt.cancel()
      }
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
      const cancelled = new Set(await store.cancelRequests(asked))
      for (const attempt of asked) if (cancelled.has(attempt.jobId)) attempt.cancel()
    },
  }
}
