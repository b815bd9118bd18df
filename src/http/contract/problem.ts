import { type ErrorCode, errorCodes, SignalboxError, type SignalboxErrorOptions } from '../../core/errors.ts'
import { mutates, type Route } from './route.ts'

/** An error in an HTTP answer: an RFC 9457 problem document with the library's own code. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: string
  readonly detail: string
  /** For `invalid_argument`: the position of the mistake. */
  readonly details?: Readonly<Record<string, string | number>>
}

/** The position of a mistake: the option or field; in a search, the column and the expected terms; or the named job. */
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

/** Other details do not leave the process that threw the error. */
function placeOf(error: SignalboxError): Problem['details'] {
  const known = places.flatMap((name): readonly (readonly [string, string | number])[] => {
    const value = error.details[name]
    if (typeof value === 'number') return [[name, value]]
    return typeof value === 'string' ? [[name, value.slice(0, maxPlace)]] : []
  })
  return known.length === 0 ? undefined : Object.fromEntries(known)
}

/**
 * Decodes the error of a problem document. An unknown code comes from a later version: it becomes `internal`, with the
 * original code in the details.
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

/** Whether the parsed body of an answer is a problem document. */
export function isProblem(value: unknown): value is Problem {
  if (typeof value !== 'object' || value === null) return false
  const { code, detail, status } = value as Record<string, unknown>
  return typeof code === 'string' && typeof detail === 'string' && typeof status === 'number'
}

/**
 * The problems that a route may answer with. A route names only its own problems. This table adds the problems that
 * follow from its properties (it takes a body, needs a token, writes), so that no route can forget them.
 */

/** Problems that follow from a property of a route. */
interface CommonProblems {
  /** The routes in words, to read after "every route". */
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

/** The codes of all problems of a route, in the order of the table of codes. */
export function problemsOf(route: Route): readonly ErrorCode[] {
  const common = commonProblems.filter(({ concern }) => concern(route)).flatMap(({ codes }) => codes)
  const codes = new Set([...common, ...(route.problems ?? [])])
  return (Object.keys(errorCodes) as ErrorCode[]).filter((code) => codes.has(code))
}

/** The codes of all problems of a route by HTTP status, lowest first. */
export function problemsByStatus(route: Route): ReadonlyMap<number, readonly ErrorCode[]> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of problemsOf(route)) {
    const { status } = errorCodes[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return new Map([...byStatus].sort(([a], [b]) => a - b))
}

/**
 * Whether a route accepts an Idempotency-Key. It does not if the server would have to keep a secret to repeat the
 * answer.
 */
export function takesIdempotencyKey(route: Route): boolean {
  return mutates(route) && route.id !== 'createToken'
}

/** Job routes that do not write to the job store, or whose repetition does no harm. */
const besideJobs: ReadonlySet<string> = new Set([
  'setSchedule',
  'removeSchedule',
  'pauseSchedule',
  'resumeSchedule',
  'logJob',
  'wakeQueue',
])

/** Whether the store writes the key in the transaction of its effect. Otherwise a separate guard keeps the key. */
export function keepsKeyWithEffect({ id, module }: Route): boolean {
  return module === 'jobs' ? !besideJobs.has(id) : id === 'submitTask'
}
