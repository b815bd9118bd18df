import { type ErrorCode, errorCodes, SignalboxError, type SignalboxErrorOptions } from '../core/errors.ts'

/** An error as it goes over the wire: an RFC 9457 problem document with the library's own code. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
}

/** The media type of a problem document. */
export const problemType = 'application/problem+json; charset=utf-8'

/** The problem document of an error. */
export function problemOf(error: SignalboxError): Problem {
  const { status, meaning } = errorCodes[error.code]
  return {
    type: `urn:signalbox:error:${error.code}`,
    title: meaning,
    status,
    code: error.code,
    detail: error.message,
  }
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
