/**
 * Writes how attempts ended, many at a time: what ends in one turn goes in one write, and what ends while a write is
 * under way goes in the next. A write whose answer was lost is made again: verdicts are conditional on their lease, and
 * the store says which of them the first try wrote. It gives up when the lease is over, for then nothing can be written.
 */
import { isSignalboxError } from '../../core/errors.ts'
import type { JobStore, Verdict } from '../../jobs/index.ts'
import type { Claim } from './claims.ts'

/** What is written of a claim, beyond its name. */
export type Ending = Pick<Verdict, 'state' | 'result' | 'error'> & {
  readonly delayMs?: number
  readonly handBackCount?: number
}

interface Entry {
  readonly claim: Claim
  readonly verdict: Verdict
  readonly told: (took: boolean) => void
}

const maxBatch = 1_000
const maxWrites = 2
const retryMs = 200

/** What the writer needs. */
export interface EndsParts {
  readonly store: Pick<JobStore, 'settle' | 'outcomes'>
  readonly monotonicMs: () => number
  readonly onTrouble: (error: unknown) => void
}

/** The ends that are not written yet. */
export class Ends {
  readonly #parts: EndsParts
  #waiting: Entry[] = []
  #writes = 0
  #unwritten = 0
  #bytes = 0
  #isScheduled = false
  readonly #idlers: (() => void)[] = []

  constructor(parts: EndsParts) {
    this.#parts = parts
  }

  get size(): number {
    return this.#unwritten
  }

  /** What the results among them take, about. */
  get bytes(): number {
    return this.#bytes
  }

  /** Writes the end of a claim, which must not be ending already; `told` learns once whether it took. */
  write(
    claim: Claim,
    { state, result, error, delayMs = 0, handBackCount = claim.handBackCount }: Ending,
    told: (took: boolean) => void,
  ): void {
    claim.isEnding = true
    const verdict: Verdict = {
      jobId: claim.jobId,
      token: claim.token,
      state,
      attempt: claim.attempt,
      handBackCount,
      snoozeCount: claim.snoozeCount,
      delayMs,
      ranMs: null,
      result,
      error,
    }
    this.#unwritten += 1
    this.#bytes += result?.length ?? 0
    this.#waiting.push({ claim, verdict, told })
    this.#schedule()
  }

  /** Resolves when all is written or given up. */
  idle(): Promise<void> {
    return new Promise((resolve) => (this.#unwritten === 0 ? resolve() : this.#idlers.push(resolve)))
  }

  #schedule(): void {
    if (this.#isScheduled || this.#writes >= maxWrites || this.#waiting.length === 0) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      const batch = this.#waiting.splice(0, maxBatch)
      void this.#write(batch)
      this.#schedule()
    })
  }

  async #write(batch: readonly Entry[]): Promise<void> {
    this.#writes += 1
    const took = await this.#persist(batch)
    this.#writes -= 1
    this.#unwritten -= batch.length
    for (let index = 0; index < batch.length; index += 1) {
      const { told, verdict } = batch[index]!
      this.#bytes -= verdict.result?.length ?? 0
      try {
        told(took[index] === true)
      } catch (error) {
        // One that cannot be told is no reason to leave the others in the dark.
        this.#parts.onTrouble(error)
      }
    }
    this.#schedule()
    if (this.#unwritten === 0) for (const wake of this.#idlers.splice(0)) wake()
  }

  async #persist(batch: readonly Entry[]): Promise<readonly boolean[]> {
    const { store, monotonicMs, onTrouble } = this.#parts
    for (let tries = 1; ; tries += 1) {
      try {
        const took = await store.settle(batch.map(({ verdict }) => verdict))
        if (tries === 1 || took.every(Boolean)) return took
        const outcomes = await store.outcomes(batch.map(({ claim }) => claim))
        return took.map((did, index) => did || outcomes[index] === 'settled')
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return []
        onTrouble(error)
        const deadline = Math.max(...batch.map(({ claim }) => claim.leaseUntil))
        if (monotonicMs() > deadline) return []
        await new Promise((resolve) => setTimeout(resolve, retryMs * (0.5 + Math.random())))
      }
    }
  }
}
