import { isSignalboxError, SignalboxError } from '../../core/errors.ts'

/** Everything that is wrong with a configuration, gathered so that a person mends it in one go. */
export class Problems {
  readonly #lines: string[] = []

  add(line: string): void {
    this.#lines.push(line)
  }

  /** What `read` gives, or undefined after noting why it was refused. */
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
