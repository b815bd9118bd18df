import type { StraightLimits } from './limitstraight.ts'

/**
 * The queues with limits whose last claim here gave something. Whether there is anything in them need not be found out
 * before the next; and if nothing went first and the front of the line was enough, that one may go straight.
 */
export class LimitGivers {
  readonly #queues = new Map<string, StraightLimits | undefined>()

  has(queue: string): boolean {
    return this.#queues.has(queue)
  }

  /** By what a claim may go straight. */
  straight(queue: string): StraightLimits | undefined {
    return this.#queues.get(queue)
  }

  gave(queue: string, straight: StraightLimits | undefined): void {
    if (this.#queues.size > maxQueues) this.#queues.clear()
    this.#queues.set(queue, straight)
  }

  /** Something went first in a look over these: their next claims do not go straight. */
  noteUnease(queues: readonly string[]): void {
    for (const queue of queues) if (this.#queues.has(queue)) this.#queues.set(queue, undefined)
  }

  gaveNothing(queue: string): void {
    this.#queues.delete(queue)
  }
}

const maxQueues = 1_000
