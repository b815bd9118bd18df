import type { StraightLimits } from './limit-straight.ts'

/**
 * The queues with limits whose last claim here gave something. Whether there is anything in them need not be found out
 * before the next; and if nothing went first and the front of the line was enough, that one may go straight. Where one
 * after the other is refused or fails, though claims step by step do not, they are tried less and less often.
 */
export class LimitGivers {
  readonly #queues = new Map<string, StraightLimits | undefined>()
  readonly #refusals = new Map<string, Refusals>()

  has(queue: string): boolean {
    return this.#queues.has(queue)
  }

  /** By what a claim may go straight. */
  straight(queue: string): StraightLimits | undefined {
    if (performance.now() < (this.#refusals.get(queue)?.until ?? 0)) return undefined
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

  /** A claim that went straight was refused, or it failed. */
  refused(queue: string): void {
    this.noteUnease([queue])
    const count = (this.#refusals.get(queue)?.count ?? 0) + 1
    const waitMs = count < fewRefusals ? 0 : Math.min(longestMs, firstMs * 2 ** (count - fewRefusals))
    if (this.#refusals.size > maxQueues) this.#refusals.clear()
    this.#refusals.set(queue, { count, until: performance.now() + waitMs })
  }

  /** One was not, whatever it gave. */
  accepted(queue: string): void {
    this.#refusals.delete(queue)
  }
}

interface Refusals {
  /** One after the other. */
  readonly count: number
  readonly until: number
}

const maxQueues = 1_000
/** What falls due between two claims refuses one or two. */
const fewRefusals = 3
const firstMs = 20
const longestMs = 1_000
