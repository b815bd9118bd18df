import type { TInteger, TNull, TSchema, TString, TUnion, TUnsafe } from 'typebox'
import type { Backoff } from '../../core/backoff.ts'
import type { Failure } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { jobStates } from '../../core/job-states.ts'
import { instantOptions, nameOptions, schemaFor, spanPattern, strict, Type } from './schema.ts'

/** Values that routes of all modules speak of. */

/** A name: 1 to 191 characters without control characters. */
export const name: TString = Type.String(nameOptions)

/** Milliseconds, or text such as '30s'. */
export const span: TUnsafe<Duration> = Type.Unsafe<Duration>(
  Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: spanPattern })]),
)

/** How long somebody waits for an answer. */
export const waitMs: TInteger = Type.Integer({ minimum: 0, maximum: 60_000 })

/** Epoch milliseconds. */
export const instant: TInteger = Type.Integer(instantOptions)
export const instantOrNull: TUnion<[TInteger, TNull]> = orNull(instant)

/** How many. */
export const count: TInteger = Type.Integer({ minimum: 0 })

/** How long a job waits before it is tried again. */
export const backoff: TUnsafe<Backoff> = Type.Unsafe<Backoff>(
  schemaFor<Backoff>()(
    Type.Object({
      baseMs: Type.Number(),
      factor: Type.Number(),
      jitter: Type.Number(),
      maxMs: Type.Number(),
    }),
  ),
)

/** Why something failed, as `core/failure.ts` describes it. */
export const failure: TUnsafe<Failure> = Type.Unsafe<Failure>(
  schemaFor<Failure>()(
    Type.Object({
      name: Type.Optional(Type.String()),
      message: Type.String(),
      code: Type.Optional(Type.String()),
      stack: Type.Optional(Type.String()),
      details: Type.Optional(Type.Unknown()),
    }),
  ),
)

/** The back-off that a request asks for; what is left out has a default. */
export interface BackoffBody {
  readonly baseMs?: number
  readonly factor?: number
  readonly jitter?: number
  readonly maxMs?: number
}
export const backoffBody: TUnsafe<BackoffBody> = Type.Unsafe<BackoffBody>(
  schemaFor<BackoffBody>()(
    Type.Object(
      {
        baseMs: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
        factor: Type.Optional(Type.Number({ minimum: 1, maximum: 1_000 })),
        jitter: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
        maxMs: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
      },
      strict,
    ),
  ),
)

export function orNull<S extends TSchema>(schema: S): TUnion<[S, TNull]> {
  return Type.Union([schema, Type.Null()])
}

/** The states of a job. */
export const jobState: TUnsafe<(typeof jobStates)[number]> = Type.Unsafe(
  Type.Union(jobStates.map((state) => Type.Literal(state))),
)
