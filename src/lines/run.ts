import type { LineRows } from './line.ts'
import type { Rule } from './rule.ts'

/** Rows that answer in time, over a connection. */
export type LaterRows = {
  readonly [Name in keyof LineRows]: (
    ...args: Parameters<LineRows[Name]>
  ) => ReturnType<LineRows[Name]> | Promise<ReturnType<LineRows[Name]>>
}

/** Runs a rule on rows that answer at once. */
export function runNow<Answer>(rule: Rule<Answer>, rows: LineRows): Answer {
  let step = rule.next()
  while (!step.done) {
    const [name, ...args] = step.value
    step = rule.next((rows[name] as (...args: unknown[]) => never)(...args))
  }
  return step.value
}

/** Runs a rule on rows that answer in time. */
export async function runLater<Answer>(rule: Rule<Answer>, rows: LaterRows): Promise<Answer> {
  let step = rule.next()
  while (!step.done) {
    const [name, ...args] = step.value
    step = rule.next(await (rows[name] as (...args: unknown[]) => Promise<never>)(...args))
  }
  return step.value
}
