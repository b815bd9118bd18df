import { type ErrorCode, errorCodes } from '../../core/errors.ts'
import type { Route } from './route.ts'

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
    // A server that shuts down still says how it is.
    whose: 'but `/livez`, `/readyz` and `/metrics`',
    codes: ['draining'],
    concern: ({ id }) => !['livez', 'readyz', 'metrics'].includes(id),
  },
  {
    whose: 'but those that end, keep or give back what somebody holds, and those above',
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
    concern: ({ mutates }) => mutates,
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
  return route.mutates && route.id !== 'createToken'
}

/** What is said of jobs past their store, or says the same however often it is said. */
const besideJobs: ReadonlySet<string> = new Set([
  'setSchedule',
  'removeSchedule',
  'pauseSchedule',
  'resumeSchedule',
  'noteJob',
  'wakeQueue',
])

/** Whether the key is written in the transaction of its effect; else it is kept beside it. */
export function keepsKeyWithEffect({ id, module }: Route): boolean {
  return module === 'jobs' ? !besideJobs.has(id) : id === 'submitTask'
}
