import { isSignalboxError } from '../../core/errors.ts'
import type { JobStore, Verdict } from '../job-store.ts'
import type { Attempt } from './attempt.ts'

/**
 * Writes how attempts ended, many at a time. What ends in one turn of the event loop goes in one write, and what ends
 * while a write is under way goes in the next, so nobody waits for a clock and a crowd costs one commit.
 *
 * A write whose answer was lost is made again: verdicts are conditional on their lease, so the second time can change
 * nothing that the first one did, and `outcomes` says which of them the first one wrote. It gives up when the lease is
 * over, for then nothing can be written any more.
 */
export interface Completer {
  /** How many verdicts are not written yet. */
  readonly size: number
  /** Writes the verdict; `told` learns whether it took, once. */
  settle(attempt: Attempt, verdict: Verdict, told: (took: boolean) => void): void
  /**
   * For an attempt that was ended in a transaction of the user's: finds out whether they committed, and writes
   * `verdict` if they did not. `told` learns whether theirs stands.
   */
  confirm(attempt: Attempt, verdict: Verdict, told: (committed: boolean, took: boolean) => void): void
  /** Resolves when all is written or given up. */
  idle(): Promise<void>
}

interface Entry {
  readonly attempt: Attempt
  readonly verdict: Verdict
  readonly told: (took: boolean) => void
}

const maxBatch = 1_000
const maxWrites = 2
const retryMs = 200

/** Who is told of a completer's doings. */
export interface SettlerHooks {
  readonly onTrouble: (error: unknown) => void
  /** A write has ended, and all it wrote has been told. */
  readonly onWritten?: () => void
}

export function createCompleter(
  store: Pick<JobStore, 'settle' | 'outcomes'>,
  { onTrouble, onWritten }: SettlerHooks,
): Completer {
  let waiting: Entry[] = []
  let writes = 0
  let confirms = 0
  let isScheduled = false
  const idlers: (() => void)[] = []

  function schedule(): void {
    if (isScheduled || writes >= maxWrites || waiting.length === 0) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      const batch = waiting.length > maxBatch ? waiting.slice(0, maxBatch) : waiting
      waiting = waiting.length > maxBatch ? waiting.slice(maxBatch) : []
      void write(batch)
      schedule()
    })
  }

  async function write(batch: readonly Entry[]): Promise<void> {
    writes++
    const took = await persist(batch)
    writes--
    for (const [index, { told }] of batch.entries()) told(took[index]!)
    onWritten?.()
    schedule()
    wakeIdlers()
  }

  /** Whether each verdict was written: by this call, or by a try whose answer was lost. */
  async function persist(batch: readonly Entry[]): Promise<readonly boolean[]> {
    for (let tries = 1; ; tries++) {
      try {
        const took = await store.settle(batch.map(({ verdict }) => verdict))
        if (tries === 1 || took.every(Boolean)) return took
        const outcomes = await store.outcomes(batch.map(({ attempt }) => attempt))
        return took.map((did, index) => did || outcomes[index] === 'settled')
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return batch.map(() => false)
        onTrouble(error)
        const deadline = Math.max(...batch.map(({ attempt }) => attempt.leaseUntil))
        if (performance.now() > deadline) return batch.map(() => false)
        await pause(retryMs * (0.5 + Math.random()))
      }
    }
  }

  async function ask(attempt: Attempt, verdict: Verdict): Promise<{ committed: boolean; took: boolean }> {
    for (let tries = 1; ; tries++) {
      try {
        const [outcome] = await store.outcomes([attempt])
        if (outcome === 'settled') return { committed: true, took: false }
        if (outcome === 'lost') return { committed: false, took: false }
        // Held: rolled back, or not committed yet. In the latter case this waits for their transaction to end.
        const [took] = await store.settle([verdict])
        if (took) return { committed: false, took: true }
        // They committed, or the lease ended, between the two: the next answer says so.
        if (tries === 1) continue
      } catch (error) {
        if (isSignalboxError(error, 'closed')) return { committed: false, took: false }
        onTrouble(error)
      }
      if (performance.now() > attempt.leaseUntil) return { committed: false, took: false }
      await pause(retryMs * (0.5 + Math.random()))
    }
  }

  function wakeIdlers(): void {
    if (size() > 0) return
    for (const wake of idlers.splice(0)) wake()
  }

  function size(): number {
    return waiting.length + writes + confirms
  }

  return {
    get size() {
      return size()
    },
    settle(attempt, verdict, told) {
      waiting.push({ attempt, verdict, told })
      schedule()
    },
    confirm(attempt, verdict, told) {
      confirms++
      void ask(attempt, verdict).then(({ committed, took }) => {
        confirms--
        told(committed, took)
        onWritten?.()
        wakeIdlers()
      })
    },
    idle: () => new Promise((resolve) => (size() === 0 ? resolve() : idlers.push(resolve))),
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
