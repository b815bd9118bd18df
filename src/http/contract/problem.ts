import { type ErrorCode, errorCodes, SignalboxError, type SignalboxErrorOptions } from '../../core/errors.ts'
import { mutates, type Route } from './route.ts'

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

/** Where the mistake is: the option or field, in a search the column and what belongs there, the job that was named. */
const places = ['option', 'field', 'column', 'expected', 'jobId'] as const

/** An unknown name may be as long as the request. */
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

/** Other details stay in the process that threw the error. */
function placeOf(error: SignalboxError): Problem['details'] {
  const told = places.flatMap((name): readonly (readonly [string, string | number])[] => {
    const value = error.details[name]
    if (typeof value === 'number') return [[name, value]]
    return typeof value === 'string' ? [[name, value.slice(0, maxPlace)]] : []
  })
  return told.length === 0 ? undefined : Object.fromEntries(told)
}

/**
 * The error that a problem document describes. A code that this version does not know comes from a later one: it becomes
 * `internal`, with the code in the details.
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

/**
 * Which problems a route may answer with. A route names its own; those that follow from what it is (it takes a body,
 * it needs a token, it writes) are added here, once, so that no route can forget them.
 */

/** Problems that follow from what a route is: the codes, and whom they concern. */
export interface CommonProblems {
  /** To be read after "every route". */
  readonly whose: string
  readonly codes: readonly ErrorCode[]
  concern(route: Route): boolean
}

export const commonProblems: readonly CommonProblems[] = [
  {
    whose: '',
    codes: ['invalid_argument', 'forbidden', 'request_timeout', 'too_many', 'headers_too_large', 'internal'],
    concern: () => true,
  },
  {
    // A server that shuts down still reports its health.
    whose: 'but `/livez`, `/readyz` and `/metrics`',
    codes: ['draining'],
    concern: ({ id }) => !['livez', 'readyz', 'metrics'].includes(id),
  },
  {
    whose: 'but those that end or renew a lease, and those above',
    codes: ['overloaded'],
    concern: ({ relieves }) => relieves !== true,
  },
  {
    whose: 'that needs a token',
    codes: [
      'unauthorized',
      'closed',
      'schema_missing',
      'schema_newer',
      'schema_outdated',
      'store_busy',
      'store_unavailable',
    ],
    concern: ({ scope }) => scope !== 'none',
  },
  {
    whose: 'that takes a body',
    codes: ['too_large'],
    concern: ({ body }) => body !== undefined,
  },
  {
    whose: 'that changes something',
    codes: ['transaction_conflict', 'commit_unknown'],
    concern: mutates,
  },
  {
    whose: 'that takes an Idempotency-Key',
    codes: ['in_progress', 'idempotency_mismatch'],
    concern: takesIdempotencyKey,
  },
]

/** The codes of every problem a route may answer with, in the order of the table of codes. */
export function problemsOf(route: Route): readonly ErrorCode[] {
  const common = commonProblems.filter(({ concern }) => concern(route)).flatMap(({ codes }) => codes)
  const codes = new Set([...common, ...(route.problems ?? [])])
  return (Object.keys(errorCodes) as ErrorCode[]).filter((code) => codes.has(code))
}

/** The same by HTTP status, lowest first. */
export function problemsByStatus(route: Route): ReadonlyMap<number, readonly ErrorCode[]> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of problemsOf(route)) {
    const { status } = errorCodes[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b))
}

/** Whether an Idempotency-Key counts: everywhere but where a secret would have to be kept to say it again. */
export function takesIdempotencyKey(route: Route): boolean {
  return mutates(route) && route.id !== 'createToken'
}

/** Job routes that do not write to the job store, or that may be repeated without harm. */
const besideJobs: ReadonlySet<string> = new Set([
  'setSchedule',
  'removeSchedule',
  'pauseSchedule',
  'resumeSchedule',
  'logJob',
  'wakeQueue',
])

/** Whether the key is written in the transaction of its effect; else it is kept beside it. */
export function keepsKeyWithEffect({ id, module }: Route): boolean {
  return module === 'jobs' ? !besideJobs.has(id) : id === 'submitTask'
}
