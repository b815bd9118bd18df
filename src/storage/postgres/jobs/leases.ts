import type { ClaimedRecord, LeaseRef } from '../../../jobs/index.ts'
import { decodeToken, type Token } from '../../token.ts'

/**
 * What this process remembers of the leases it claimed: which jobs are in them, and which it has not seen ended. It
 * saves looking into the lease's row and tells when a lease can be ended as a whole. It is never the reason why
 * something is written: the statements check every lease themselves.
 */
export class Leases {
  readonly #leases = new Map<string, Remembered>()
  #forgetAt = 0
  /** Leases that may have no open job any more, to be swept. */
  readonly #spent = new Set<string>()

  /** `jobs` as they lie in the lease's row. */
  remember(token: Token, jobs: readonly ClaimedRecord[], leaseMs: number): void {
    this.#forgetOld()
    this.#leases.set(token.leaseNo, {
      nonce: token.nonce,
      forgetAt: performance.now() + leaseMs + graceMs,
      jobCount: jobs.length,
      jobs: new Map(jobs.map((job) => [job.id, job])),
      open: new Set(jobs.map(({ id }) => id)),
    })
  }

  find(ref: LeaseRef): ClaimedRecord | undefined {
    const token = decodeToken(ref.token)
    const lease = token && this.#leases.get(token.leaseNo)
    return lease?.nonce === token?.nonce ? lease?.jobs.get(ref.jobId) : undefined
  }

  renewed(leaseNo: string, leaseMs: number): void {
    const lease = this.#leases.get(leaseNo)
    if (lease) lease.forgetAt = Math.max(lease.forgetAt, performance.now() + leaseMs + graceMs)
  }

  /** All its jobs in the order of its row, if none of them has ended. */
  untouched({ leaseNo, nonce }: Token): readonly ClaimedRecord[] | undefined {
    const lease = this.#leases.get(leaseNo)
    if (lease === undefined || lease.nonce !== nonce || lease.jobs.size !== lease.jobCount) return undefined
    return [...lease.jobs.values()]
  }

  /** Whether these are all the jobs of the lease that are still open. */
  isWhole({ leaseNo, nonce }: Token, jobIds: readonly string[]): boolean {
    const lease = this.#leases.get(leaseNo)
    return (
      lease !== undefined &&
      lease.nonce === nonce &&
      lease.open.size === jobIds.length &&
      jobIds.every((id) => lease.open.has(id))
    )
  }

  /** One job of the lease has ended, by itself. */
  ended(leaseNo: string, jobId: string): void {
    const lease = this.#leases.get(leaseNo)
    lease?.open.delete(jobId)
    lease?.jobs.delete(jobId)
    if (lease === undefined || lease.open.size === 0) this.#spent.add(leaseNo)
  }

  /** The lease's row is gone. */
  forget(leaseNo: string): void {
    this.#leases.delete(leaseNo)
    this.#spent.delete(leaseNo)
  }

  get hasSpent(): boolean {
    return this.#spent.size > 0
  }

  takeSpent(): readonly string[] {
    const spent = [...this.#spent]
    this.#spent.clear()
    for (const leaseNo of spent) if (this.#leases.get(leaseNo)?.open.size === 0) this.#leases.delete(leaseNo)
    return spent
  }

  /** Leases nobody ended or renewed, once their time is over; looked for now and then, since it looks at all. */
  #forgetOld(): void {
    const now = performance.now()
    if (now < this.#forgetAt) return
    this.#forgetAt = now + graceMs / 10
    for (const [leaseNo, { forgetAt }] of this.#leases) if (forgetAt <= now) this.#leases.delete(leaseNo)
  }
}

interface Remembered {
  readonly nonce: string
  forgetAt: number
  readonly jobCount: number
  /** Those not seen ended. */
  readonly jobs: Map<string, ClaimedRecord>
  readonly open: Set<string>
}

const graceMs = 60_000
