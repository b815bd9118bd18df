import { Completer, type JobStore, type Verdict } from '../../jobs/index.ts'
import type { Claim } from './claims.ts'

/** What is written of a claim, beyond its name. */
export type Ending = Pick<Verdict, 'state' | 'result' | 'error'> & {
  readonly delayMs?: number
  readonly handBackCount?: number
}

/** Writes how claims ended, as the workers of jobs do, and counts the bytes of what is not written yet. */
export class Ends {
  readonly #completer: Completer
  #bytes = 0

  constructor(store: Pick<JobStore, 'settle' | 'outcomes'>, onTrouble: (error: unknown) => void) {
    this.#completer = new Completer(store, { onTrouble })
  }

  /** How many ends are not written yet. */
  get size(): number {
    return this.#completer.size
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
    const bytes = result?.length ?? 0
    this.#bytes += bytes
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
    this.#completer.settle(claim, verdict, (took) => {
      this.#bytes -= bytes
      told(took)
    })
  }

  /** Resolves when all is written or given up. */
  idle(): Promise<void> {
    return this.#completer.idle()
  }
}
