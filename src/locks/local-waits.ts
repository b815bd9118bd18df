import { SignalboxError } from '../core/errors.ts'

/**
 * Who waits for a turn here. When the locks are closed all of them leave their wait queues first: one that stayed would be
 * granted in its time, and everybody behind it would wait until it is clear that nobody takes that up.
 */
export class Waits {
  readonly #open = new Set<Promise<unknown>>()
  #isOver = false

  /** Nobody may wait any more. */
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
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, leaveWithinMs)
    await Promise.race([Promise.allSettled(this.#open), late])
    clearTimeout(timer)
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
