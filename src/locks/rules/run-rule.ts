import type { Ask, Rule } from './rule.ts'
import type { WaitQueueRows } from './wait-queue.ts'

/** The rows of another operation of the same resource. */
export type Others<Rows> = (operation: string) => Rows

/** Runs a rule on rows that answer at once. `others` is asked only where operations exclude each other. */
export function runNow<Answer>(
  rule: Rule<Answer>,
  rows: WaitQueueRows,
  others: Others<WaitQueueRows> = alone,
): Answer {
  let step = rule.next()
  while (!step.done) {
    let target = rows
    let ask: Ask = step.value
    for (; ask[0] === 'of'; ask = ask[2]) target = others(ask[1])
    // No question has more than two; taking a list of them apart and together again costs more than most answers.
    step = rule.next((target[ask[0]] as (...args: unknown[]) => never)(ask[1], ask[2]))
  }
  return step.value
}

function alone(operation: string): never {
  throw new Error(`The wait queue of ${operation} was asked for by a rule that was given one wait queue.`)
}
