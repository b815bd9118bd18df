/**
 * What this process remembers of leases that ran out: those it could not take back, with a job whose ack sits in an open
 * transaction or in another's hands, and when to look at them again; and when it last cleared away what has served.
 */
export class Lapses {
  readonly #blocked = new Map<string, number>()
  #clearAt = 0

  /** The leases that a claim must not wait for. */
  ignored(): readonly string[] {
    const now = performance.now()
    for (const [leaseNo, until] of this.#blocked) if (until <= now) this.#blocked.delete(leaseNo)
    return [...this.#blocked.keys()]
  }

  block(leaseNo: string): void {
    this.#blocked.set(leaseNo, performance.now() + lookAgainMs)
  }

  /** Whether it is time to clear away; it is not, then, for a while. */
  isClearingDue(): boolean {
    const now = performance.now()
    if (now < this.#clearAt) return false
    this.#clearAt = now + clearEveryMs
    return true
  }
}

const lookAgainMs = 500
const clearEveryMs = 30_000
