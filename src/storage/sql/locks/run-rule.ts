import type { RowQuestion, Rule, WaitQueueRows } from '../../../locks/rules/index.ts'
import { type Procedure, run, type Step } from '../procedure.ts'

/** The rows of a wait queue for a rule inside a procedure: some answers are ready, others are procedures. */
export type ProcedureRows = {
  readonly [Name in keyof WaitQueueRows]: (
    ...args: Parameters<WaitQueueRows[Name]>
  ) => ReturnType<WaitQueueRows[Name]> | Procedure<ReturnType<WaitQueueRows[Name]>>
}

/**
 * Runs a rule on the rows of the wait queue of `operation`. `rowsOf` finds the rows of this and of excluded operations.
 */
export function* runRule<Answer>(
  rule: Rule<Answer>,
  operation: string,
  rowsOf: (operation: string) => ProcedureRows,
): Procedure<Answer> {
  const own = rowsOf(operation)
  let step = rule.next()
  while (!step.done) {
    let target = own
    let question: RowQuestion = step.value
    for (; question[0] === 'of'; question = question[2]) target = rowsOf(question[1])
    const answer = (target[question[0]] as (...args: unknown[]) => unknown)(question[1], question[2])
    step = rule.next(isProcedure(answer) ? yield* answer : answer)
  }
  return step.value
}

/** Neither a row nor a number has such a method. */
function isProcedure(answer: unknown): answer is Procedure<unknown> {
  return typeof (answer as Procedure<unknown> | undefined | null)?.next === 'function'
}

/**
 * Runs procedures side by side, so that their steps share round trips. If `lateOrder` returns a number for a step, the
 * step waits until all other procedures have come as far. Such steps then run in the order of their numbers, so that
 * two transactions that lock the same rows do not deadlock.
 */
export function* sideBySide<Answer>(
  procedures: readonly Procedure<Answer>[],
  lateOrder: (step: Step) => number | undefined,
): Procedure<readonly Answer[]> {
  const states = procedures.map((procedure) => ({ procedure, step: procedure.next() }))
  while (true) {
    const open = states.flatMap((state) => {
      const { done, value } = state.step
      return done ? [] : [{ state, statements: value.statements, late: lateOrder(value) }]
    })
    if (open.length === 0) return states.map(({ step }) => step.value as Answer)
    const early = open.filter(({ late }) => late === undefined)
    const next = early.length > 0 ? early : open.sort((a, b) => a.late! - b.late!)
    const results = yield* run(...next.flatMap(({ statements }) => statements))
    let at = 0
    for (const { state, statements } of next) {
      state.step = state.procedure.next(results.slice(at, at + statements.length))
      at += statements.length
    }
  }
}
