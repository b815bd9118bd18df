import { setImmediate as nextTurn } from 'node:timers/promises'
import { within } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

/** Returns the answer of a call. Throws `store_unavailable` if the call takes longer; a late answer is ignored. */
export async function inTime<Answer>(
  withinMs: number,
  call: () => Promise<Answer>,
  who = 'The cluster state',
): Promise<Answer> {
  return within(withinMs, call(), () => {
    throw new SignalboxError('store_unavailable', `${who} did not answer within ${withinMs} ms.`)
  })
}

/** The length of a time slice. */
const sliceMs = 1

/** Splits long work into slices, so that other work can run: `if (slice.isOver) await slice.pause()` in loops. */
export class TimeSlice {
  #began = performance.now()
  #beforeMs = 0

  get isOver(): boolean {
    return performance.now() - this.#began >= sliceMs
  }

  /** The time that the work has taken, without the pauses. */
  get workedMs(): number {
    return this.#beforeMs + performance.now() - this.#began
  }

  /** Lets other work run. */
  async pause(): Promise<void> {
    this.#beforeMs = this.workedMs
    await nextTurn()
    this.#began = performance.now()
  }
}
