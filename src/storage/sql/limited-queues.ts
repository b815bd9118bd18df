/**
 * What a process remembers about queues with limits: their names, and which queue to ask first. It also lets only one
 * claim at a time ask for a queue. Otherwise all connections of a process could wait for the same row; claims that wait
 * here hold none.
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

  record(queue: string, isLimited: boolean): void {
    if (!isLimited) this.#names.delete(queue)
    else if (this.#names.size < maxNames) this.#names.add(queue)
  }

  /** The same queues, starting with another one each time. */
  inRotation(queues: readonly string[]): readonly string[] {
    this.#rotation = (this.#rotation + 1) % 1_000_000
    const first = this.#rotation % Math.max(1, queues.length)
    return [...queues.slice(first), ...queues.slice(0, first)]
  }

  /** Whether this claim asks queues with limits before the others: every second claim does. */
  comeFirst(): boolean {
    this.#isTheirTurn = !this.#isTheirTurn
    return this.#isTheirTurn
  }

  /**
   * Runs `body` while no other call of this process claims from the queue. Returns undefined if the wait took too long.
   */
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
