import type { TArray, TInteger, TNull, TOptional, TSchema, TString, TUnion, TUnsafe } from 'typebox'
import type { Backoff } from '../../core/backoff.ts'
import type { Failure } from '../../core/describe-error.ts'
import type { Duration } from '../../core/duration.ts'
import { jobStates } from '../../core/job-words.ts'
import type { Term } from '../../dispatch/index.ts'
import {
  instantOptions,
  nameOptions,
  object,
  part,
  type Schema,
  spanPattern,
  strict,
  strictObject,
  Type,
} from './schema.ts'

/** Values that routes of several modules share. */

/** A name: 1 to 191 characters without control characters. */
export const name: TString = Type.String(nameOptions)

/** Milliseconds, or text such as '30s'. */
export const span: TUnsafe<Duration> = Type.Unsafe<Duration>(
  Type.Union([Type.Integer({ minimum: 0 }), Type.String({ pattern: spanPattern })]),
)

/** How long a caller waits for a reply. */
export interface WaitQuery {
  readonly waitMs?: number | undefined
}
export const waitMs: TInteger = Type.Integer({ minimum: 0, maximum: 60_000 })

/** Epoch milliseconds. */
export const instant: TInteger = Type.Integer(instantOptions)
export const instantOrNull: TUnion<[TInteger, TNull]> = orNull(instant)

/** A count. */
export const count: TInteger = Type.Integer({ minimum: 0 })

/** How long a job waits before its next attempt. */
export const backoff: TUnsafe<Backoff> = part<Backoff>(
  object({
    baseMs: Type.Number(),
    factor: Type.Number(),
    jitter: Type.Number(),
    maxMs: Type.Number(),
  }),
)

/** The error of a failure. */
export const failure: TUnsafe<Failure> = part<Failure>(
  object({
    name: Type.Optional(Type.String()),
    message: Type.String(),
    code: Type.Optional(Type.String()),
    stack: Type.Optional(Type.String()),
    details: Type.Optional(Type.Unknown()),
  }),
)

/** The back-off of a request; missing fields have defaults. */
export const backoffBody: TUnsafe<Partial<Backoff>> = part<Partial<Backoff>>(
  strictObject({
    baseMs: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
    factor: Type.Optional(Type.Number({ minimum: 1, maximum: 1_000 })),
    jitter: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    maxMs: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  }),
)

export function orNull<S extends TSchema>(schema: S): TUnion<[S, TNull]> {
  return Type.Union([schema, Type.Null()])
}

/** The states of a job. */
export const jobState: TUnsafe<(typeof jobStates)[number]> = Type.Unsafe(
  Type.Union(jobStates.map((state) => Type.Literal(state))),
)

/** A page of a list; `cursor` is null at the end. */
export interface Page<Item> {
  readonly items: readonly Item[]
  readonly cursor: string | null
}

/** The limit and the cursor of a page. */
export interface PageQuery {
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | null | undefined
}

/** The parameters of a page; `cursorChars` limits the length of its cursors. */
export function pageQuery(cursorChars: number): PageParameters {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(Type.String({ minLength: 1, maxLength: cursorChars, pattern: '^[\\w-]+$' })),
  }
}

interface PageParameters {
  readonly limit: TOptional<TInteger>
  readonly cursor: TOptional<TString>
}

/** A page of such items. */
export function pageOf<Item>(item: Schema<Item>): Schema<Page<Item>> {
  const cursor = orNull(Type.String())
  return Type.Object({ items: Type.Array(item), cursor }) as Schema<Page<Item>>
}

export interface IdParams {
  readonly id: string
}
export interface NameParams {
  readonly name: string
}

/** The data of an event that has only a type. */
export const nothing: Schema<Readonly<Record<string, never>>> = Type.Unsafe<Readonly<Record<string, never>>>({
  type: 'object',
  maxProperties: 0,
})

/** The terms of a task for nodes, as JSON. */

/** A service that a node must offer, with tags. */
export const serviceTermSchema: Schema = Type.Object(
  { service: name, where: Type.Optional(Type.Unsafe({ type: 'object', maxProperties: 16 })) },
  strict,
)
/** A label that a node must have. */
export const labelTermSchema: Schema = Type.Object(
  {
    label: name,
    in: Type.Optional(Type.Array(name, { minItems: 1, maxItems: 64 })),
    gte: Type.Optional(Type.Number()),
    lte: Type.Optional(Type.Number()),
  },
  strict,
)
const plainTerms = [serviceTermSchema, labelTermSchema]
const anyOf = (inner: Schema) =>
  Type.Object({ any: Type.Array(inner, { minItems: 1, maxItems: 64 }) }, strict)
const notOf = (inner: Schema) => Type.Object({ not: inner }, strict)
const lastTerm = Type.Union(plainTerms)
const deepTerms = [anyOf(lastTerm), notOf(lastTerm)] as const
const deepTerm = Type.Union([...plainTerms, ...deepTerms])
const innerTerms = [anyOf(deepTerm), notOf(deepTerm)] as const
const innerTerm = Type.Union([...plainTerms, ...innerTerms])
const outerTerms = [anyOf(innerTerm), notOf(innerTerm)] as const
/** Terms contain terms, at most four levels deep. */
export const term: TUnsafe<Term> = Type.Unsafe<Term>(Type.Union([...plainTerms, ...outerTerms]))
/** Terms that contain others, by their names in the description of the API. */
export const nestingTermSchemas: Readonly<Record<string, Schema>> = {
  AnyTerm: outerTerms[0],
  NotTerm: outerTerms[1],
  InnerAnyTerm: innerTerms[0],
  InnerNotTerm: innerTerms[1],
  DeepAnyTerm: deepTerms[0],
  DeepNotTerm: deepTerms[1],
}

export const terms: TArray<TUnsafe<Term>> = Type.Array(term, { maxItems: 32 })
