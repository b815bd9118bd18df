import type { RequestKey } from '../backend.ts'
import { decodeAnswer, encodeAnswer, keyMismatch, leavesKey } from '../request-key.ts'

interface Kept {
  readonly fingerprint: string
  readonly answer: string
  readonly expiresAt: number
}

/** The keys of requests that must not be done twice, of all namespaces, each with the answer that was given. */
export class MemoryKeys {
  readonly #now: () => number
  readonly #kept = new Map<string, Kept>()
  readonly #underWay = new Map<string, Promise<unknown>>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** Does `call` unless it was done with this key before; then answers what it answered. */
  async once(
    namespace: string,
    { caller, key, fingerprint, keepMs }: RequestKey,
    method: string,
    call: () => Promise<unknown>,
  ): Promise<unknown> {
    const id = JSON.stringify([namespace, caller, key])
    // A call's effect is there at once and its answer a moment later: who comes in between waits for that.
    while (this.#underWay.has(id)) await this.#underWay.get(id)
    const kept = this.#kept.get(id)
    if (kept && kept.expiresAt > this.#now()) {
      if (kept.fingerprint !== fingerprint) throw keyMismatch(key)
      return decodeAnswer(kept.answer)
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#underWay.set(id, promise)
    try {
      const expiresAt = this.#now() + keepMs
      const answer = await call()
      if (leavesKey(method, answer))
        this.#kept.set(id, { fingerprint, answer: encodeAnswer(answer), expiresAt })
      return answer
    } finally {
      this.#underWay.delete(id)
      resolve()
    }
  }

  /** Forgets up to `limit` keys whose time is over; answers how many. */
  prune(limit: number): number {
    const now = this.#now()
    let forgotten = 0
    for (const [id, { expiresAt }] of this.#kept) {
      if (forgotten >= limit) break
      if (expiresAt <= now && this.#kept.delete(id)) forgotten++
    }
    return forgotten
  }
}
