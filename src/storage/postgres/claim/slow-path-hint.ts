/**
 * What this process remembers of claims over the same queues: whether something went first when they last looked, which
 * is a job that fell due, a lease that ran out, or a queue with limits. Then the next claim expects it, for one that goes
 * straight would be refused.
 */
export class Unrest {
  readonly #found = new Set<string>()

  isLikely(queues: readonly string[]): boolean {
    return this.#found.size > 0 && this.#found.has(keyOf(queues))
  }

  /** A look over these queues found something that goes first, or nothing. */
  saw(queues: readonly string[], isSomething: boolean): void {
    if (this.#found.size > maxLists) this.#found.clear()
    if (isSomething) this.#found.add(keyOf(queues))
    else this.#found.delete(keyOf(queues))
  }
}

/** Queue names may come and go. */
const maxLists = 1_000

function keyOf(queues: readonly string[]): string {
  return JSON.stringify(queues)
}
