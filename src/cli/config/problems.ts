import { isSignalboxError, SignalboxError } from '../../core/errors.ts'

/** Collects all mistakes of a configuration, so that a person can fix them in one go. */
export class Problems {
  readonly #lines: string[] = []

  add(line: string): void {
    this.#lines.push(line)
  }

  /** The result of `read`; undefined when it was refused, which is recorded. */
  catch<Value>(read: () => Value): Value | undefined {
    try {
      return read()
    } catch (error) {
      if (!isSignalboxError(error, 'invalid_argument')) throw error
      this.add(error.message)
      return undefined
    }
  }

  /** Throws them all as one error; `problemLines` has them apart again. */
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

/** The candidate that is nearest to a word; undefined when none is near enough to be a typing error. */
export function nearestTo(word: string, candidates: readonly string[]): string | undefined {
  // A long name may have more wrong letters; two letters are half of a short one.
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

/** How many letters must be added, left out, changed or swapped with their neighbour to get from one to the other. */
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
