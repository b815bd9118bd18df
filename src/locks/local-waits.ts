import { within } from '../core/clock.ts'
import { SignalboxError } from '../core/errors.ts'
import type { Grant } from './rules/index.ts'

/**
 * The waits for a turn in this process. When the locks close, all of them leave their wait queues first. A wait that stayed
 * would be granted later, and all waiters behind it would wait until its take-up window is over.
 */
export class Waits {
  readonly #open = new Set<Promise<unknown>>()
  /** Whom to hand a grant to, by the topic of the requester. */
  readonly #takers = new Map<string, (grant: HandedGrant) => void>()
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

  /** Takes a grant that is handed over in this process, until the returned function is called. */
  takeGrant(topic: string, take: (grant: HandedGrant) => void): () => void {
    // Another wait of the same request hears of its grant by watching.
    if (this.#takers.has(topic)) return () => undefined
    this.#takers.set(topic, take)
    return () => this.#takers.delete(topic)
  }

  /** Hands a grant to the one who waits for it, if that one is here. */
  hand(topic: string, grant: HandedGrant): boolean {
    const take = this.#takers.get(topic)
    take?.(grant)
    return take !== undefined
  }

  /** Resolves when all have left, or a store that does not answer has had its time. */
  async end(): Promise<void> {
    this.#isOver = true
    if (this.#open.size === 0) return
    await within(leaveWithinMs, Promise.allSettled(this.#open), () => undefined)
  }
}

/** A grant that came with the answer to the release before it: nobody has to ask for it. */
export interface HandedGrant extends Grant {
  /** When that release was sent, by `performance.now()`: the grant is not older. */
  readonly sentAt: number
  /** How long it lasts at least, unless its lease is shorter. */
  readonly takeUpMs: number
}

/** The reason with which a watch ends whose requester has its grant already. */
export const handedOver: Error = new Error('The grant was handed over.')

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
