import { Batcher } from '../../core/batcher.ts'
import { isSignalboxError } from '../../core/errors.ts'
import type { JobStore, LeaseRef, Verdict } from '../job-store.ts'

/** An attempt under a lease of this process. */
export interface LeasedAttempt extends LeaseRef {
  /** The lease is valid at least until this time of the process's monotonic clock. */
  readonly leaseUntil: number
}

interface Entry {
  readonly attempt: LeasedAttempt
  readonly verdict: Verdict
  /** Called once: whether the store wrote the verdict. */
  readonly onWritten: (written: boolean) => void
}

const maxBatch = 1_000
const maxWrites = 2
const retryMs = 200

/** What a completer reports. */
export interface CompleterHooks {
  readonly onError: (error: unknown) => void
  /** A write ended, after `onWritten` of all its verdicts. */
  readonly onWriteEnded?: () => void
}

/**
 * Writes verdicts in batches. Verdicts of one turn of the event loop go in one write; verdicts that arrive while writes
 * are in flight go in the next. So no verdict waits for a timer, and many share one commit.
 *
 * The completer repeats a write whose answer was lost. A verdict is conditional on its lease, so the second write
 * cannot change what the first one wrote, and `outcomes` says which verdicts that were. The completer gives up when the
 * leases have ended, because the store then refuses the verdicts.
 */
export class Completer {
  readonly #store: Pick<JobStore, 'settle' | 'outcomes'>
  readonly #hooks: CompleterHooks
  readonly #writes: Batcher<Entry, void>
  #size = 0
  readonly #onIdle: (() => void)[] = []

  constructor(store: Pick<JobStore, 'settle' | 'outcomes'>, hooks: CompleterHooks) {
    this.#store = store
    this.#hooks = hooks
    this.#writes = new Batcher({
      maxItems: maxBatch,
      maxInFlight: maxWrites,
      run: (entries) => this.#write(entries),
    })
  }

  /** The number of verdicts that are not yet written. */
  get size(): number {
    return this.#size
  }

  /** Writes the verdict. Calls `onWritten` once. */
  settle(attempt: LeasedAttempt, verdict: Verdict, onWritten: (written: boolean) => void): void {
    this.#size++
    void this.#writes.add({ attempt, verdict, onWritten })
  }

  /**
   * For an attempt that was acked or nacked in a caller's transaction: asks the store whether the caller committed, and
   * writes `verdict` if not. Calls `onConfirmed` once.
   */
  confirm(
    attempt: LeasedAttempt,
    verdict: Verdict,
    onConfirmed: (committed: boolean, written: boolean) => void,
  ): void {
    this.#size++
    void this.#confirm(attempt, verdict).then(({ committed, written }) => {
      this.#endWrite(1, () => onConfirmed(committed, written))
    })
  }

  /** Resolves when every verdict is written or given up. */
  idle(): Promise<void> {
    return new Promise((resolve) => (this.#size === 0 ? resolve() : this.#onIdle.push(resolve)))
  }

  /** Never rejects. */
  async #write(entries: readonly Entry[]): Promise<readonly void[]> {
    const written = await this.#persist(entries)
    this.#endWrite(entries.length, (index) => entries[index]!.onWritten(written[index] === true))
    return []
  }

  /** A write of `count` verdicts ended: calls `answer` for each, then resolves `idle` if no verdict is left. */
  #endWrite(count: number, answer: (index: number) => void): void {
    this.#size -= count
    for (let index = 0; index < count; index++) {
      try {
        answer(index)
      } catch (error) {
        // The other attempts must get their answer.
        this.#hooks.onError(error)
      }
    }
    this.#hooks.onWriteEnded?.()
    if (this.#size === 0) for (const wake of this.#onIdle.splice(0)) wake()
  }

  /** Answers for each verdict whether this call wrote it, in any of its tries. */
  async #persist(entries: readonly Entry[]): Promise<readonly boolean[]> {
    const verdicts = entries.map(({ verdict }) => verdict)
    for (let tries = 1; ; tries++) {
      try {
        const written = await this.#store.settle(verdicts)
        if (tries === 1 || written.every(Boolean)) return written
        const outcomes = await this.#store.outcomes(entries.map(({ attempt }) => attempt))
        return written.map((did, index) => did || outcomes[index] === 'settled')
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return []
        this.#hooks.onError(error)
        if (performance.now() > Math.max(...entries.map(({ attempt }) => attempt.leaseUntil))) return []
        await pause(retryMs * (0.5 + Math.random()))
      }
    }
  }

  async #confirm(
    attempt: LeasedAttempt,
    verdict: Verdict,
  ): Promise<{ committed: boolean; written: boolean }> {
    for (let tries = 1; ; tries++) {
      try {
        const [outcome] = await this.#store.outcomes([attempt])
        if (outcome === 'settled') return { committed: true, written: false }
        if (outcome === 'lost') return { committed: false, written: false }
        // Held: the caller rolled back, or has not committed yet. The write waits for the caller's transaction to end.
        const [written] = await this.#store.settle([verdict])
        if (written) return { committed: false, written: true }
        // The caller committed, or the lease ended, between the two calls: the next try finds out.
        if (tries === 1) continue
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return { committed: false, written: false }
        this.#hooks.onError(error)
      }
      if (performance.now() > attempt.leaseUntil) return { committed: false, written: false }
      await pause(retryMs * (0.5 + Math.random()))
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
