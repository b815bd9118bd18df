import type { RequestKey } from '../backend.ts'
import { decodeAnswer, encodeAnswer, keyMismatch, leavesKey } from '../request-key.ts'

interface Kept {
  readonly fingerprint: string
  readonly answer: string
  readonly expiresAt: number
}

/** The request keys of all namespaces, with their answers: a request with a known key is not executed again. */
export class MemoryKeys {
  readonly #now: () => number
  readonly #kept = new Map<string, Kept>()
  readonly #running = new Map<string, Promise<unknown>>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** Runs `call` once for each key. Later requests with the key get the stored answer. */
  async once(
    namespace: string,
    { caller, key, fingerprint, keepMs }: RequestKey,
    method: string,
    call: () => Promise<unknown>,
  ): Promise<unknown> {
    const id = JSON.stringify([namespace, caller, key])
    // The effect of a call is visible before its answer: a request between the two waits for the answer.
    while (this.#running.has(id)) await this.#running.get(id)
    const kept = this.#kept.get(id)
    if (kept && kept.expiresAt > this.#now()) {
      if (kept.fingerprint !== fingerprint) throw keyMismatch(key)
      return decodeAnswer(kept.answer)
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#running.set(id, promise)
    try {
      const expiresAt = this.#now() + keepMs
      const answer = await call()
      if (leavesKey(method, answer))
        this.#kept.set(id, { fingerprint, answer: encodeAnswer(answer), expiresAt })
      return answer
    } finally {
      this.#running.delete(id)
      resolve()
    }
  }

  /** Deletes up to `limit` expired keys. Answers how many. */
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
