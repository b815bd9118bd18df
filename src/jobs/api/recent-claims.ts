import type { ClaimedJob } from '../job.ts'
import type { Judged } from '../lifecycle.ts'

/**
 * What judging needs of jobs that were claimed here a while ago, so that whoever kept only id and token need not be
 * looked up again. None of it changes while the lease lives, and without it nothing is written; so a wrong memory can do
 * no more than a right one. Bounded: the oldest are forgotten.
 */
export class RecentClaims {
  readonly #claims = new Map<string, Judged>()

  remember(jobs: readonly ClaimedJob[]): void {
    for (const { id, token, attempt, maxAttempts, handBackCount, snoozeCount, backoff } of jobs) {
      this.#claims.delete(id)
      this.#claims.set(id, { id, token, attempt, maxAttempts, handBackCount, snoozeCount, backoff })
    }
    for (const id of this.#claims.keys()) {
      if (this.#claims.size <= maxClaims) break
      this.#claims.delete(id)
    }
  }

  find(id: string, token: string): Judged | undefined {
    const claim = this.#claims.get(id)
    return claim?.token === token ? claim : undefined
  }

  forget(id: string): void {
    this.#claims.delete(id)
  }
}

const maxClaims = 10_000
