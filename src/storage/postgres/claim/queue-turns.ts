/**
 * What this process remembers of queues with limits. Claims from one follow each other here, so that of all that wait for
 * its row one has a connection. And where a claim is over both kinds of queues, each kind is first every other time.
 */
export class QueueTurns {
  readonly #last = new Map<string, Promise<void>>()
  /** Claims that ended their turn and are not answered yet. */
  readonly #sent = new Map<string, Promise<void>>()
  readonly #limited = new Set<string>()
  #wasLimitedFirst = false

  /** Waits for its turn; what is answered ends it. Undefined: it did not come in time. */
  async enter(queue: string): Promise<(() => void) | undefined> {
    const { promise: over, resolve: leave } = Promise.withResolvers<void>()
    const before = this.#last.get(queue)
    const last = before === undefined ? over : before.then(() => over)
    this.#last.set(queue, last)
    void last.then(() => {
      if (this.#last.get(queue) === last) this.#last.delete(queue)
    })
    if (before === undefined || (await comesInTime(before))) return leave
    leave()
    return undefined
  }

  /**
   * Ends the turn of a claim that was sent: the next may be sent behind it, before it is answered. Two are under way at
   * most, on one connection: more would each wait for the row on another, and whoever else needs one would wait for them.
   */
  passOn(queue: string, leave: () => void, over: Promise<void>): void {
    const before = this.#sent.get(queue)
    this.#sent.set(queue, over)
    void over.then(() => {
      if (this.#sent.get(queue) === over) this.#sent.delete(queue)
    })
    if (before === undefined) leave()
    else void before.then(leave)
  }

  /** A look over these queues found those to have limits. */
  saw(queues: readonly string[], limited: readonly string[]): void {
    if (limited.length === 0 && this.#limited.size === 0) return
    if (this.#limited.size > maxQueues) this.#limited.clear()
    for (const queue of queues) {
      if (limited.includes(queue)) this.#limited.add(queue)
      else this.#limited.delete(queue)
    }
  }

  /** Whether those with limits are first: it is their turn, or as far as is known there are no others among these. */
  isLimitedFirst(queues: readonly string[]): boolean {
    if (this.#limited.size === 0 || !queues.some((queue) => this.#limited.has(queue))) return false
    if (queues.every((queue) => this.#limited.has(queue))) return true
    this.#wasLimitedFirst = !this.#wasLimitedFirst
    return this.#wasLimitedFirst
  }
}

const maxQueues = 1_000
const waitMs = 500

async function comesInTime(before: Promise<void>): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), waitMs)
  try {
    return await Promise.race([before.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
