import type { Rule } from '../lines/index.ts'
import type { LockKey } from '../locks/index.ts'
import { type LineName, nameLine } from './linekey.ts'
import type { RunRule } from './ruledlocks.ts'

/**
 * Calls of this process on one line take turns before they come to the database, and those that came while a transaction
 * was under way share the next: one lock, one commit, in the order in which they came. So a line that everybody wants
 * occupies one connection and not all of them, and is the faster the more want it.
 */
export function shareTurns(namespace: string, perform: Perform): RunRule {
  const lines = new Map<string, Waiting[]>()

  async function work(line: LineName, waiting: Waiting[]): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, mostTogether)
      try {
        const rules = batch.map(({ rule }) => rule)
        const answers = await perform(line, rules, batch[0]!.deadline)
        batch.forEach(({ resolve }, index) => {
          resolve(answers[index])
        })
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    lines.delete(line.lineKey)
  }

  return <Answer>(key: LockKey, rule: () => Rule<Answer>): Promise<Answer> => {
    const line = nameLine(namespace, key)
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const deadline = performance.now() + callMs
    const call: Waiting = { rule, resolve: resolve as (answer: unknown) => void, reject, deadline }
    const waiting = lines.get(line.lineKey)
    if (waiting) {
      waiting.push(call)
    } else {
      const own = [call]
      lines.set(line.lineKey, own)
      void work(line, own)
    }
    return promise
  }
}

/**
 * Runs the rules one after the other in one transaction on a line. Conflicts are tried again, with rules made anew,
 * until the deadline (of `performance.now()`).
 */
export type Perform = (
  line: LineName,
  rules: readonly (() => Rule<unknown>)[],
  deadline: number,
) => Promise<readonly unknown[]>

interface Waiting {
  readonly rule: () => Rule<unknown>
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
  readonly deadline: number
}

/** How long a call tries; whoever waited behind another has less left. */
const callMs = 10_000
/** What one transaction takes on, so that none is long. */
const mostTogether = 64
