import type { Static, TSchema } from 'typebox'

/**
 * JSON Schemas that know the TypeScript type they describe. A type is written out where it belongs and its schema beside
 * it; `schemaFor` does not compile when the two differ, so neither can be changed alone.
 */
declare const described: unique symbol
export type Schema<Value = unknown> = TSchema & { readonly [described]?: Value }

/** What a schema describes. */
export type Described<S> = S extends Schema<infer Value> ? Value : never

/** Readonly or not is nothing that JSON could tell. */
type Plain<T> = T extends readonly (infer Item)[]
  ? Plain<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Plain<T[Key]> }
    : T
/** With every field there, so that one which is optional and left out on one side is seen. */
type Whole<T> = T extends readonly (infer Item)[]
  ? Whole<Item>[]
  : T extends object
    ? { [Key in keyof T]-?: Whole<T[Key]> }
    : T
type Both<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
type Same<A, B> = Both<Plain<A>, Plain<B>> extends true ? Both<Whole<Plain<A>>, Whole<Plain<B>>> : false

/** Takes a schema that describes exactly `Value`. */
export function schemaFor<Value>(): <S extends TSchema>(
  schema: Same<Static<S>, Value> extends true ? S : { readonly differs: [Static<S>, Value] },
) => Schema<Value> {
  return (schema) => schema as unknown as Schema<Value>
}

/** No fields but those named. */
export const strict = { additionalProperties: false } as const

/** A name: 1 to 191 characters without control characters. */
export const nameOptions = {
  minLength: 1,
  maxLength: 191,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
} as const

/** An instant: epoch milliseconds. */
export const instantOptions = { minimum: 0, maximum: 8_640_000_000_000_000 } as const

/** A span: milliseconds, or text such as '30s'. */
export const spanPattern = '^\\d{1,12}(\\.\\d{1,3})?(ms|s|m|h|d)$'

export { Type } from './type.ts'
