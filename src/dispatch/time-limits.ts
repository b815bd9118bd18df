import { setImmediate as nextTurn } from 'node:timers/promises'
import { within } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

/** What the call answers, unless it takes longer: then `store_unavailable`, and its late answer is ignored. */
export async function inTime<Answer>(
  withinMs: number,
  call: () => Promise<Answer>,
  who = 'The cluster state',
): Promise<Answer> {
  return within(withinMs, call(), () => {
    throw new SignalboxError('store_unavailable', `${who} did not answer within ${withinMs} ms.`)
  })
}

/** So long others wait for a piece of the work. */
const stretchMs = 1

/** Counts how long others have been held up: `if (stretch.isOver) await stretch.pause()` in loops. */
export class Stretch {
  #began = performance.now()
  #beforeMs = 0

  get isOver(): boolean {
    return performance.now() - this.#began >= stretchMs
  }

  /** How long the work itself has taken, without the pauses. */
  get workedMs(): number {
    return this.#beforeMs + performance.now() - this.#began
  }

  /** Lets others run. */
  async pause(): Promise<void> {
    this.#beforeMs = this.workedMs
    await nextTurn()
    this.#began = performance.now()
  }
}
