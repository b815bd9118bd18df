import type { LockKey } from '../../locks/index.ts'
import { type Rule, runLater } from '../../locks/rules/index.ts'
import type { RunRule } from '../ruled-locks.ts'
import type { LineBook } from './wait-queue-book.ts'
import { type LineName, nameLine } from './wait-queue-key.ts'

/**
 * Calls of this process on one line take turns before they come to the database, and those that came while a transaction
 * was under way share the next: one lock, one commit, in the order in which they came. So a line that everybody wants
 * occupies one connection and not all of them, and is the faster the more want it.
 *
 * Lines of a resource whose operations exclude each other are one in this: their calls take turns together.
 */
export function shareTurns(namespace: string, perform: Perform): RunRule {
  const turns = new Map<string, Waiting[]>()

  async function work(lines: readonly LineName[], waiting: Waiting[]): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, mostTogether)
      try {
        const answers = await perform(lines, batch, batch[0]!.deadline)
        batch.forEach(({ resolve }, index) => {
          resolve(answers[index])
        })
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    turns.delete(lines[0]!.lineKey)
  }

  return <Answer>(key: LockKey, rule: () => Rule<Answer>, group?: readonly string[]): Promise<Answer> => {
    const lines = nameLines(namespace, key, group)
    const [{ lineKey }] = lines
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const call: Waiting = {
      operation: key.operation,
      rule,
      resolve: resolve as (answer: unknown) => void,
      reject,
      deadline: performance.now() + callMs,
    }
    const waiting = turns.get(lineKey)
    if (waiting) {
      waiting.push(call)
    } else {
      const own = [call]
      turns.set(lineKey, own)
      void work(lines, own)
    }
    return promise
  }
}

/** The lines that a call is about. Whoever locks several does it in this order, so that no two wait for each other. */
function nameLines(
  namespace: string,
  key: LockKey,
  group: readonly string[] | undefined,
): readonly [LineName, ...LineName[]] {
  if (group === undefined) return [nameLine(namespace, key)]
  const [first, ...others] = group.map((operation) => nameLine(namespace, { ...key, operation })).sort(byKey)
  return [first!, ...others]
}

function byKey(a: LineName, b: LineName): number {
  return a.lineKey < b.lineKey ? -1 : 1
}

/**
 * Runs the rules one after the other in one transaction on a line, or on several that it locks in the order given.
 * Conflicts are tried again, with rules made anew, until the deadline (of `performance.now()`).
 */
export type Perform = (
  lines: readonly LineName[],
  calls: readonly LineCall[],
  deadline: number,
) => Promise<readonly unknown[]>

export interface LineCall {
  /** Whose line the rule is about. */
  readonly operation: string
  readonly rule: () => Rule<unknown>
}

/** Runs all of them on lines that were locked and read; each sees what those before it did. */
export async function runCalls(
  calls: readonly LineCall[],
  books: ReadonlyMap<string, LineBook>,
): Promise<readonly unknown[]> {
  const answers: unknown[] = []
  const at = (operation: string) => books.get(operation)!
  for (const { operation, rule } of calls) answers.push(await runLater(rule(), at(operation), at))
  return answers
}

interface Waiting extends LineCall {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
  readonly deadline: number
}

/** How long a call tries; whoever waited behind another has less left. */
const callMs = 10_000
/** What one transaction takes on, so that none is long. */
const mostTogether = 64
