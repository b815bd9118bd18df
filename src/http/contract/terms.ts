import type { TArray, TUnsafe } from 'typebox'
import type { Term } from '../../dispatch/index.ts'
import { type Schema, strict, Type } from './schema.ts'
import { name } from './values.ts'

/** What is asked of nodes, as JSON. */

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
/** Terms hold terms, four levels deep at most. */
export const term: TUnsafe<Term> = Type.Unsafe<Term>(Type.Union([...plainTerms, ...outerTerms]))
/** Those that hold others, by the names they have in the description of the API. */
export const nestingTermSchemas: Readonly<Record<string, Schema>> = {
  AnyTerm: outerTerms[0],
  NotTerm: outerTerms[1],
  InnerAnyTerm: innerTerms[0],
  InnerNotTerm: innerTerms[1],
  DeepAnyTerm: deepTerms[0],
  DeepNotTerm: deepTerms[1],
}

export const terms: TArray<TUnsafe<Term>> = Type.Array(term, { maxItems: 32 })
