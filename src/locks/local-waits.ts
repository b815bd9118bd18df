import { within } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'

/**
 * The waits for a turn in this process. When the locks close, all of them leave their wait queues first. A wait that stayed
 * would be granted later, and all waiters behind it would wait until its take-up window is over.
 */
export class Waits {
  readonly #open = new Set<Promise<unknown>>()
  #isOver = false

  /** No wait may begin any more. */
  get isOver(): boolean {
    return this.#isOver
  }

  async during<Answer>(wait: Promise<Answer>): Promise<Answer> {
    this.#open.add(wait)
    try {
      return await wait
    } finally {
      this.#open.delete(wait)
    }
  }

  /** Resolves when all have left, or a store that does not answer has had its time. */
  async end(): Promise<void> {
    this.#isOver = true
    if (this.#open.size === 0) return
    await within(leaveWithinMs, Promise.allSettled(this.#open), () => undefined)
  }
}

const leaveWithinMs = 2_000

/** What a wait ends with whose locks were closed. */
export function waitClosed({ operation, resource }: Waited): SignalboxError {
  return new SignalboxError(
    'closed',
    `The box was closed while its turn for ${operation} of ${JSON.stringify(resource)} was waited for; it has left the wait queue.`,
  )
}

interface Waited {
  readonly operation: string
  readonly resource: string
}
