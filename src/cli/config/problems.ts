import { isSignalboxError, SignalboxError } from '../../core/errors.ts'

/** Collects all mistakes of a configuration, so that the operator sees them at once. */
export class Problems {
  readonly #lines: string[] = []

  add(line: string): void {
    this.#lines.push(line)
  }

  /** Returns the result of `read`. If it throws `invalid_argument`, records the error and returns undefined. */
  catch<Value>(read: () => Value): Value | undefined {
    try {
      return read()
    } catch (error) {
      if (!isSignalboxError(error, 'invalid_argument')) throw error
      this.add(error.message)
      return undefined
    }
  }

  /** Throws all as one error; `problemLines` separates them. */
  throwIfAny(): void {
    if (this.#lines.length === 0) return
    throw new SignalboxError('invalid_argument', this.#lines.join(' '), {
      details: { problems: [...this.#lines] },
    })
  }
}

/** The lines to print for an error: one for each problem of a configuration, else its message. */
export function problemLines({ message, details }: SignalboxError): readonly string[] {
  return Array.isArray(details.problems) ? (details.problems as readonly string[]) : [message]
}

/** Returns the candidate that is nearest to a word; undefined: none is near enough for a typing error. */
export function nearestTo(word: string, candidates: readonly string[]): string | undefined {
  // A long word may have three wrong letters; a short one fewer.
  const most = Math.min(3, Math.floor(word.length / 3))
  let best: string | undefined
  let bestDistance = most + 1
  for (const candidate of candidates) {
    const distance = distanceOf(word.toLowerCase(), candidate.toLowerCase())
    if (distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

/** The number of letters to add, remove, change or swap with a neighbour that turns one word into the other. */
function distanceOf(from: string, to: string): number {
  let before: number[] = []
  let last = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let i = 1; i <= from.length; i++) {
    const row = [i]
    for (let j = 1; j <= to.length; j++) {
      const changed = last[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1)
      row[j] = Math.min(row[j - 1]! + 1, last[j]! + 1, changed)
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        row[j] = Math.min(row[j]!, before[j - 2]! + 1)
    }
    before = last
    last = row
  }
  return last[to.length]!
}
