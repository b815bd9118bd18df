import { within } from '../../../core/clock.ts'

/**
 * What the store answers to a question that many ask: overviews and scrapes. It is asked at most every two seconds, however
 * many callers there are. Where the answer is late or fails, the one before is used.
 */
export interface KnownAnswer<Answer> {
  /** `waitMs`: how long to wait for the store. @default a second */
  recent(waitMs?: number): Promise<Answer>
}

const keepMs = 2_000
const patienceMs = 1_000

/** One answer for each asked object, so that all callers share it. */
export function createKnownAnswers<Asked extends object, Answer>(
  question: (asked: Asked) => Promise<Answer>,
  none: Answer,
): (asked: Asked) => KnownAnswer<Answer> {
  const known = new WeakMap<Asked, KnownAnswer<Answer>>()
  return (asked) => {
    let answer = known.get(asked)
    if (answer === undefined) {
      answer = createKnownAnswer(() => question(asked), none)
      known.set(asked, answer)
    }
    return answer
  }
}

function createKnownAnswer<Answer>(question: () => Promise<Answer>, none: Answer): KnownAnswer<Answer> {
  let last = none
  let askedAt = Number.NEGATIVE_INFINITY
  let asking: Promise<void> | undefined

  async function ask(): Promise<void> {
    askedAt = performance.now()
    try {
      last = await question()
    } catch {
      // `/readyz` reports a store that does not answer.
    } finally {
      asking = undefined
    }
  }

  return {
    async recent(waitMs = patienceMs) {
      if (asking === undefined && performance.now() - askedAt >= keepMs) asking = ask()
      if (asking !== undefined) await within(Math.min(waitMs, patienceMs), asking, () => undefined)
      return last
    },
  }
}
