/**
 * What a process remembers of queues with limits: which they were, whose turn it is to be asked first, and that
 * one claim at a time asks for a queue. The last keeps all but one of a process's connections from waiting for the same
 * row; those that wait here have none.
 */
const maxNames = 10_000

export class LimitedQueues {
  readonly #names = new Set<string>()
  readonly #turns = new Map<string, Promise<void>>()
  #isTheirTurn = false
  #rotation = 0

  has(queue: string): boolean {
    return this.#names.has(queue)
  }

  note(queue: string, isLimited: boolean): void {
    if (!isLimited) this.#names.delete(queue)
    else if (this.#names.size < maxNames) this.#names.add(queue)
  }

  /** The same queues, beginning with another one each time. */
  inRotation(queues: readonly string[]): readonly string[] {
    this.#rotation = (this.#rotation + 1) % 1_000_000
    const first = this.#rotation % Math.max(1, queues.length)
    return [...queues.slice(first), ...queues.slice(0, first)]
  }

  /** Whether queues with limits are asked before the others this time: every other time. */
  comeFirst(): boolean {
    this.#isTheirTurn = !this.#isTheirTurn
    return this.#isTheirTurn
  }

  /** Runs `body` when no other call of this process claims from the queue; undefined if that took too long. */
  async inTurn<Answer>(
    queue: string,
    waitMs: number,
    body: () => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const until = performance.now() + waitMs
    for (let before = this.#turns.get(queue); before !== undefined; before = this.#turns.get(queue)) {
      const isOver = await within(before, until - performance.now())
      if (!isOver) return undefined
    }
    const turn = Promise.withResolvers<void>()
    this.#turns.set(queue, turn.promise)
    try {
      return await body()
    } finally {
      this.#turns.delete(queue)
      turn.resolve()
    }
  }
}

async function within(promise: Promise<void>, ms: number): Promise<boolean> {
  if (ms <= 0) return false
  const late = Promise.withResolvers<boolean>()
  const timer = setTimeout(late.resolve, ms, false)
  try {
    return await Promise.race([promise.then(() => true), late.promise])
  } finally {
    clearTimeout(timer)
  }
}
