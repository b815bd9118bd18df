import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { parseJson } from '../../core/json.ts'
import { errorOf, isProblem, type Problem, type Schema } from '../contract/index.ts'
import { type Answer, describe, type OutgoingRequest } from './request.ts'
import { type FailedTry, retryAfterMs, type Try } from './retry.ts'

/**
 * Turns an answer into the reply of the route, or into an error. A problem document comes from the server and keeps its
 * code. Anything else comes from a proxy, or from another program on that port.
 */
export function decodeAnswer(request: OutgoingRequest, answer: Answer): Try<unknown> {
  const { route } = request
  const { status, type, text } = answer
  const afterMs = retryAfterMs(answer.retryAfter)
  if (type === 'application/problem+json') {
    const problem = parseJson(text)
    if (!isProblem(problem)) return failed(garbled(request, answer), true, afterMs)
    const error = errorOf(problem, detailsOf(problem))
    return failed(error, isPassing(status, error), afterMs)
  }
  const schema = route.replies[status]
  if (schema === undefined) {
    const error = foreign(request, answer)
    return failed(error, isPassing(status, error), afterMs)
  }
  if (route.replyType === 'text') return { ok: true, reply: text }
  if (type !== 'application/json') return failed(foreign(request, answer), false, afterMs)
  const reply = parseJson(text)
  // Without a length in the headers, a broken connection leaves incomplete text.
  if (reply === undefined) return failed(garbled(request, answer), true, afterMs)
  if (!fits(schema, reply)) return failed(unexpected(request), false, afterMs)
  return { ok: true, reply }
}

/** With these a server refuses a request before it does anything. */
const refusals: ReadonlySet<string> = new Set(['too_many', 'draining', 'overloaded'])

function failed(error: SignalboxError, passing: boolean, afterMs: number): FailedTry {
  // A limit of the caller, and a request in progress, are the same on every server.
  const isServerFault = passing && error.code !== 'too_many' && error.code !== 'in_progress'
  return { ok: false, error, passing, isUndone: refusals.has(error.code), isServerFault, afterMs }
}

/** Whether the error may go away by itself. */
function isPassing(status: number, error: SignalboxError): boolean {
  if (isSignalboxError(error, 'in_progress')) return true
  // An operator must migrate the schema.
  if (error.code.startsWith('schema_')) return false
  return status === 429 || status === 502 || status === 503 || status === 504
}

/** The details of a problem document, for programs. */
function detailsOf(problem: Problem): { readonly details?: Readonly<Record<string, unknown>> } {
  const { details } = problem as { details?: unknown }
  const isRecord = typeof details === 'object' && details !== null && !Array.isArray(details)
  return isRecord ? { details: details as Readonly<Record<string, unknown>> } : {}
}

/** Whether a value has the outline of the schema. This is enough to recognise an answer of another program. */
function fits(schema: Schema, value: unknown): boolean {
  const { anyOf, type, required, properties } = schema as {
    anyOf?: readonly Schema[]
    type?: string
    required?: readonly string[]
    properties?: Readonly<Record<string, { readonly type?: string }>>
  }
  if (anyOf !== undefined) return anyOf.some((option) => fits(option, value))
  if (type !== 'object') return true
  if (typeof value !== 'object' || value === null) return false
  return (required ?? []).every((name) => {
    if (!Object.hasOwn(value, name)) return false
    const isList = properties?.[name]?.type === 'array'
    return !isList || Array.isArray((value as Record<string, unknown>)[name])
  })
}

function foreign(request: OutgoingRequest, { status, type }: Answer): SignalboxError {
  const what = `${describe(request)} was answered with ${status || 'a redirect'}${type && ` ${shown(type)}`}`
  const options = { details: { route: request.route.id, status } }
  if (status === 0 || (status >= 300 && status < 400)) {
    const message = `${what}. Redirects are not followed. Use the address to which this one leads.`
    return new SignalboxError('store_unavailable', message, options)
  }
  const message = `${what}. The answer is not from Signalbox but from a proxy or another program: check the address.`
  switch (status) {
    case 408:
    case 504:
      return new SignalboxError('timeout', message, options)
    case 413:
      return new SignalboxError('too_large', message, options)
    case 429:
      return new SignalboxError('too_many', message, options)
    default:
      return new SignalboxError('store_unavailable', message, options)
  }
}

function garbled(request: OutgoingRequest, { status }: Answer): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)} got ${status} with incomplete or changed JSON. Try again; check proxies in between.`,
    { details: { route: request.route.id, status } },
  )
}

function unexpected(request: OutgoingRequest): SignalboxError {
  return new SignalboxError(
    'store_unavailable',
    `${describe(request)} got JSON of an unexpected form. Another program or another version of the server answered: check the address and the versions.`,
    { details: { route: request.route.id } },
  )
}

function shown(type: string): string {
  return /^[\w.+/-]{1,80}$/.test(type) ? type : 'of an unknown type'
}
