import { Batcher } from '../../core/batcher.ts'
import { isSignalboxError } from '../../core/errors.ts'
import type { JobStore, LeaseRef, Verdict } from '../job-store.ts'

/** An attempt under a lease of this process. */
export interface LeasedAttempt extends LeaseRef {
  /** Up to when the lease surely holds, by the process's monotonic clock. */
  readonly leaseUntil: number
}

interface Entry {
  readonly attempt: LeasedAttempt
  readonly verdict: Verdict
  readonly told: (took: boolean) => void
}

const maxBatch = 1_000
const maxWrites = 2
const retryMs = 200

/** What a completer reports. */
export interface CompleterHooks {
  readonly onTrouble: (error: unknown) => void
  /** A write has ended, and `told` was called for all it wrote. */
  readonly onWritten?: () => void
}

/**
 * Writes how attempts ended, many at a time. Verdicts of one turn of the event loop go in one write, and those that come
 * while writes are in flight go in the next, so no verdict waits for a clock and many cost one commit.
 *
 * A write whose answer was lost is made again: verdicts are conditional on their lease, so the second time can change
 * nothing that the first one did, and `outcomes` says which of them the first one wrote. It gives up when the lease is
 * over, for then nothing can be written any more.
 */
export class Completer {
  readonly #store: Pick<JobStore, 'settle' | 'outcomes'>
  readonly #hooks: CompleterHooks
  readonly #writes: Batcher<Entry, void>
  #size = 0
  readonly #idlers: (() => void)[] = []

  constructor(store: Pick<JobStore, 'settle' | 'outcomes'>, hooks: CompleterHooks) {
    this.#store = store
    this.#hooks = hooks
    this.#writes = new Batcher({
      maxItems: maxBatch,
      maxInFlight: maxWrites,
      run: (entries) => this.#write(entries),
    })
  }

  /** How many verdicts are not written yet. */
  get size(): number {
    return this.#size
  }

  /** Writes the verdict; `told` learns once whether it took. */
  settle(attempt: LeasedAttempt, verdict: Verdict, told: (took: boolean) => void): void {
    this.#size++
    void this.#writes.add({ attempt, verdict, told })
  }

  /**
   * For an attempt that was ended in a caller's transaction: finds out whether the caller committed, and writes
   * `verdict` if not. `told` learns whether the caller's verdict stands.
   */
  confirm(attempt: LeasedAttempt, verdict: Verdict, told: (committed: boolean, took: boolean) => void): void {
    this.#size++
    void this.#ask(attempt, verdict).then(({ committed, took }) => {
      this.#ended(1, () => told(committed, took))
    })
  }

  /** Resolves when all is written or given up. */
  idle(): Promise<void> {
    return new Promise((resolve) => (this.#size === 0 ? resolve() : this.#idlers.push(resolve)))
  }

  /** Never rejects. */
  async #write(entries: readonly Entry[]): Promise<readonly void[]> {
    const took = await this.#persist(entries)
    this.#ended(entries.length, (index) => entries[index]!.told(took[index] === true))
    return []
  }

  #ended(count: number, tell: (index: number) => void): void {
    this.#size -= count
    for (let index = 0; index < count; index++) {
      try {
        tell(index)
      } catch (error) {
        // The others must learn their answer all the same.
        this.#hooks.onTrouble(error)
      }
    }
    this.#hooks.onWritten?.()
    if (this.#size === 0) for (const wake of this.#idlers.splice(0)) wake()
  }

  /** Whether each verdict was written: by this call, or by a try whose answer was lost. */
  async #persist(entries: readonly Entry[]): Promise<readonly boolean[]> {
    const verdicts = entries.map(({ verdict }) => verdict)
    for (let tries = 1; ; tries++) {
      try {
        const took = await this.#store.settle(verdicts)
        if (tries === 1 || took.every(Boolean)) return took
        const outcomes = await this.#store.outcomes(entries.map(({ attempt }) => attempt))
        return took.map((did, index) => did || outcomes[index] === 'settled')
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return []
        this.#hooks.onTrouble(error)
        if (performance.now() > Math.max(...entries.map(({ attempt }) => attempt.leaseUntil))) return []
        await pause(retryMs * (0.5 + Math.random()))
      }
    }
  }

  async #ask(attempt: LeasedAttempt, verdict: Verdict): Promise<{ committed: boolean; took: boolean }> {
    for (let tries = 1; ; tries++) {
      try {
        const [outcome] = await this.#store.outcomes([attempt])
        if (outcome === 'settled') return { committed: true, took: false }
        if (outcome === 'lost') return { committed: false, took: false }
        // Held: rolled back, or not committed yet. In the latter case this waits for the caller's transaction to end.
        const [took] = await this.#store.settle([verdict])
        if (took) return { committed: false, took: true }
        // The caller committed, or the lease ended, between the two: the next answer says so.
        if (tries === 1) continue
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return { committed: false, took: false }
        this.#hooks.onTrouble(error)
      }
      if (performance.now() > attempt.leaseUntil) return { committed: false, took: false }
      await pause(retryMs * (0.5 + Math.random()))
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
