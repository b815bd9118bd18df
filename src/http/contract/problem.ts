import { type ErrorCode, errorCodes, SignalboxError, type SignalboxErrorOptions } from '../../core/errors.ts'

/** An error as it goes over the wire: an RFC 9457 problem document with the library's own code. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
  /** Of an `invalid_argument`: the place it is about. */
  readonly details?: Readonly<Record<string, string | number>>
}

/** The place in what was sent: the option or field, of a search the column and what belongs there, the job it names. */
const places = ['option', 'field', 'column', 'expected', 'jobId'] as const

/** A name that is not known may be as long as what was sent; nobody needs it whole. */
const maxPlace = 200

/** The media type of a problem document. */
export const problemType = 'application/problem+json; charset=utf-8'

/** The problem document of an error. */
export function problemOf(error: SignalboxError): Problem {
  const { status, meaning } = errorCodes[error.code]
  const problem = {
    type: `urn:signalbox:error:${error.code}`,
    title: meaning,
    status,
    code: error.code,
    detail: error.message,
  }
  const details = error.code === 'invalid_argument' ? placeOf(error) : undefined
  return details === undefined ? problem : { ...problem, details }
}

/** Nothing but these: other facts are for the program that has the error itself. */
function placeOf(error: SignalboxError): Problem['details'] {
  const told = places.flatMap((name): readonly (readonly [string, string | number])[] => {
    const value = error.details[name]
    if (typeof value === 'number') return [[name, value]]
    return typeof value === 'string' ? [[name, value.slice(0, maxPlace)]] : []
  })
  return told.length === 0 ? undefined : Object.fromEntries(told)
}

/**
 * The error that a problem document tells of, for whoever asked. A code that this version does not know is of a later
 * one: it becomes `internal`, with its own name in the details.
 */
export function errorOf(problem: Problem, options: SignalboxErrorOptions = {}): SignalboxError {
  if (Object.hasOwn(errorCodes, problem.code)) {
    return new SignalboxError(problem.code as ErrorCode, problem.detail, options)
  }
  const details = { ...options.details, code: problem.code, status: problem.status }
  return new SignalboxError('internal', `The server answered ${problem.code}: ${problem.detail}`, {
    ...options,
    details,
  })
}

/** Whether an answer's body, once parsed, is a problem document. */
export function isProblem(value: unknown): value is Problem {
  if (typeof value !== 'object' || value === null) return false
  const { code, detail, status } = value as Record<string, unknown>
  return typeof code === 'string' && typeof detail === 'string' && typeof status === 'number'
}
