import type { Operation, WriteCall } from './writes.ts'

/**
 * The calls that share a transaction, as the one that is being done sees those behind it. What they want alike is done
 * for all of them at once, and each is given its part when its turn comes: fifty workers that claim one job each cost one
 * look at the line. None of them has been answered yet, so nobody can tell that theirs was done a little earlier.
 */
export class Ahead {
  readonly #calls: readonly (WriteCall | undefined)[]
  #at = 0
  readonly #answers = new Map<WriteCall, unknown>()

  constructor(calls: readonly (WriteCall | undefined)[] = []) {
    this.#calls = calls
  }

  /** The next call is being done. */
  step(): void {
    this.#at++
  }

  /** The calls of that kind behind the present one, up to the first that may change what they find. */
  alike<Name extends Operation>(operation: Name, namespace: string): readonly WriteCall<Name>[] {
    const found: WriteCall<Name>[] = []
    for (let at = this.#at; at < this.#calls.length && found.length < mostAlike; at++) {
      const call = this.#calls[at]
      if (call === undefined || !isQuiet(call)) break
      if (call.operation === operation && call.namespace === namespace) found.push(call as WriteCall<Name>)
    }
    return found
  }

  /** What a call behind the present one will be answered with. */
  answer(call: WriteCall, value: unknown): void {
    this.#answers.set(call, value)
  }

  /** Takes what a call is answered with, where it has been done already; no call is answered with undefined here. */
  take(call: WriteCall): unknown {
    if (this.#answers.size === 0) return undefined
    const value = this.#answers.get(call)
    this.#answers.delete(call)
    return value
  }

  /** Whether some were done that have not had their turn: their transaction must not be committed before. */
  get owes(): boolean {
    return this.#answers.size > 0
  }
}

/** So that one turn is never much longer for it. */
const mostAlike = 256

const quiet: ReadonlySet<Operation> = new Set<Operation>(['claim', 'settle', 'renew'])

/** Whether a call leaves the lines of ready jobs as they are, but for what it takes from their front. */
export function isQuiet({ operation, key }: Pick<WriteCall, 'operation' | 'key'>): boolean {
  return key === undefined && quiet.has(operation)
}
