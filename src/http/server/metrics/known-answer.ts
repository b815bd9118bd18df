import { within } from '../../../core/clock.ts'

/**
 * An answer of the store that many callers share, such as overviews and scrapes. The server asks the store at most
 * every two seconds. If the answer is late or fails, callers get the previous one.
 */
export interface KnownAnswer<Answer> {
  /** `waitMs`: how long to wait for the store. @default a second */
  recent(waitMs?: number): Promise<Answer>
}

const keepMs = 2_000
const patienceMs = 1_000

/** Keeps one answer for each object, so that all callers share it. */
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
