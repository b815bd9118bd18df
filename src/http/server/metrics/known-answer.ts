import { within } from '../../../core/clock.ts'

/**
 * Answers of the store that many callers share, such as overviews and scrapes. The server asks the store at most every
 * two seconds. If the answer is late or fails, callers get the previous one. `waitMs`: how long to wait for the store.
 * @default a second
 */
export type KnownAnswers<Asked, Answer> = (asked: Asked, waitMs?: number) => Promise<Answer>

const keepMs = 2_000
const patienceMs = 1_000

/** Keeps one answer for each object, so that all callers share it; `none` before the first answer. */
export function createKnownAnswers<Asked extends object, Answer>(
  ask: (asked: Asked) => Promise<Answer>,
  none: Answer,
): KnownAnswers<Asked, Answer> {
  interface Known {
    answer: Answer
    askedAt: number
    asking: Promise<void> | undefined
  }
  const answers = new WeakMap<Asked, Known>()

  async function refresh(asked: Asked, known: Known): Promise<void> {
    known.askedAt = performance.now()
    try {
      known.answer = await ask(asked)
    } catch {
      // `/readyz` reports a store that does not answer.
    } finally {
      known.asking = undefined
    }
  }

  return async (asked, waitMs = patienceMs) => {
    const known = answers.get(asked) ?? { answer: none, askedAt: Number.NEGATIVE_INFINITY, asking: undefined }
    answers.set(asked, known)
    if (known.asking === undefined && performance.now() - known.askedAt >= keepMs)
      known.asking = refresh(asked, known)
    if (known.asking !== undefined) await within(Math.min(waitMs, patienceMs), known.asking, () => undefined)
    return known.answer
  }
}
