import { within } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'
import { describe } from './decode-lock.ts'
import type { LockKey } from './lock-store.ts'
import type { Grant } from './rules/index.ts'

/**
 * The waits of this process. When the box closes, all of them leave their wait queues first. A wait that stayed would be
 * granted later, and the waiters behind it would wait until its take-up window ends.
 */
export class Waits {
  readonly #open = new Set<Promise<unknown>>()
  /** The waits that take a grant in this process, by the topic of the requester. */
  readonly #takers = new Map<string, (grant: Grant) => void>()
  #isOver = false

  /** The box is closing: no new wait may begin. */
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

  /** Registers a wait for grants of this process, until the returned function is called. */
  takeGrant(topic: string, take: (grant: Grant) => void): () => void {
    // A second wait of the same request gets its grant by watching.
    if (this.#takers.has(topic)) return () => undefined
    this.#takers.set(topic, take)
    return () => this.#takers.delete(topic)
  }

  /** Passes a grant to its requester, if the requester waits in this process. */
  hand(topic: string, grant: Grant): boolean {
    const take = this.#takers.get(topic)
    take?.(grant)
    return take !== undefined
  }

  /** Resolves when all waits have left, or after 2 s if the store does not answer. */
  async end(): Promise<void> {
    this.#isOver = true
    if (this.#open.size === 0) return
    await within(leaveWithinMs, Promise.allSettled(this.#open), () => undefined)
  }
}

/** The reason with which a watch ends whose requester has its grant already. */
export const handedOver: Error = new Error('The grant was handed over.')

const leaveWithinMs = 2_000

/** The error of a wait that ends because the box closes. */
export function waitClosed(key: LockKey): SignalboxError {
  return new SignalboxError(
    'closed',
    `The box was closed while it waited for ${describe(key)}. The request left the wait queue.`,
  )
}
