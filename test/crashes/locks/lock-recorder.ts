import type { LockAnswer, LockCall, LockOperation } from './lock-operation.ts'

/** A way to make calls: to one server or another, which may be killed meanwhile. */
export interface LockDoor {
  /**
   * Makes a call. `sent` is called when it goes out. Rejects with `Unanswered` when its effect is unknown, and with any
   * other error when it was not sent.
   */
  ask(queue: string, call: LockCall, sent: () => void): Promise<LockAnswer>
}

/** The answer will not come. */
export class Unanswered extends Error {
  /** Settles when the call can no longer take effect. */
  readonly over: Promise<void>

  constructor(over: Promise<void>, options?: ErrorOptions) {
    super('the answer will not come', options)
    this.name = 'Unanswered'
    this.over = over
  }
}

/** Writes down what every client asks and is answered, in the order in which this process saw it. */
export class LockRecorder {
  readonly #operations: LockOperation[] = []
  readonly #unsettled = new Set<Promise<void>>()
  readonly #counts = new Map<string, number>()
  #event = 1

  /** How many calls of these have ended. */
  countOf(clients: readonly string[]): number {
    return clients.reduce((sum, client) => sum + (this.#counts.get(client) ?? 0), 0)
  }

  /** Makes the call and records it; undefined when there was no answer. */
  async ask(door: LockDoor, client: string, queue: string, call: LockCall): Promise<LockAnswer | undefined> {
    let [from, sentAt] = [0, 0]
    const ended = (answer: LockAnswer | undefined) => {
      const end = { to: this.#event++, endedAt: Date.now() + 1 }
      this.#operations.push({ client, queue, call, from, sentAt, ...end, answer })
      this.#counts.set(client, (this.#counts.get(client) ?? 0) + 1)
    }
    try {
      const answer = await door.ask(queue, call, () => {
        from = this.#event++
        sentAt = Date.now()
      })
      ended(answer)
      return answer
    } catch (error) {
      if (from === 0 || !(error instanceof Unanswered)) throw error
      const over = error.over.then(() => {
        ended(undefined)
        this.#unsettled.delete(over)
      })
      this.#unsettled.add(over)
      return undefined
    }
  }

  /** The history, once all that is under way has ended one way or the other. */
  async history(): Promise<readonly LockOperation[]> {
    await Promise.all(this.#unsettled)
    return this.#operations
  }
}
