import type TypeBox from 'typebox'
import type { Static, TObject, TProperties, TSchema, TUnsafe } from 'typebox'

/**
 * JSON Schemas with the TypeScript types that they describe. A route names its types once; its schemas do not compile
 * if they describe others, so neither can be changed alone.
 */
declare const described: unique symbol
export type Schema<Value = unknown> = TSchema & { readonly [described]?: Value }

/** The type that a schema describes. */
export type Described<S> = S extends Schema<infer Value> ? Value : never

/** The type without `readonly`, which JSON cannot express, and without undefined, because such a field is not sent. */
type Plain<T> = T extends readonly (infer Item)[]
  ? Plain<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Plain<Exclude<T[Key], undefined>> }
    : T
/** The type with all fields required, so that the compiler detects a missing optional field on one side. */
type Whole<T> = T extends readonly (infer Item)[]
  ? Whole<Item>[]
  : T extends object
    ? { [Key in keyof T]-?: Whole<T[Key]> }
    : T
type Both<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
type Same<A, B> = Both<Plain<A>, Plain<B>> extends true ? Both<Whole<Plain<A>>, Whole<Plain<B>>> : false

/** Nothing if the schema describes exactly `Value`, else the difference, which does not compile. */
type Fits<S extends TSchema, Value> =
  Same<Static<S>, Value> extends true ? unknown : { readonly differs: [Static<S>, Value] }

/** A schema of exactly the type that its place expects. */
export function exactly<Value, S extends TSchema>(schema: S & Fits<S, Value>): Schema<Value> {
  return schema as unknown as Schema<Value>
}

/** The schema of an object from its fields, for replies: of exactly the type that its place expects. */
export function object<Value, P extends TProperties>(fields: P & Fits<TObject<P>, Value>): Schema<Value> {
  return Type.Object(fields as TProperties) as Schema<Value>
}

/** The schema of an object without further fields, for request bodies: of exactly the type that its place expects. */
export function strictObject<Value, P extends TProperties>(
  fields: P & Fits<TObject<P>, Value>,
): Schema<Value> {
  return Type.Object(fields as TProperties, strict) as Schema<Value>
}

/** The schema of a query. It has no null, because such a parameter is not sent. */
export function queryObject<Value, P extends TProperties>(
  fields: P & Fits<TObject<P>, { [Key in keyof Value]: Exclude<Value[Key], null> }>,
): Schema<Value> {
  return Type.Object(fields as TProperties, strict) as Schema<Value>
}

/** A schema as a part of another one. */
export function part<Value>(schema: Schema<Value>): TUnsafe<Value> {
  return Type.Unsafe<Value>(schema)
}

/**
 * The library's options as a request carries them: an instant is a number, and there is no transaction and no signal.
 */
export type Sent<Options> = {
  readonly [Key in keyof Options as Exclude<Key, 'tx' | 'signal' | symbol>]: Exclude<Options[Key], Date>
}

/** Forbids further fields. */
export const strict = { additionalProperties: false } as const

/** A name of 1 to 191 characters without control characters. */
export const nameOptions = {
  minLength: 1,
  maxLength: 191,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
} as const

/** An instant: epoch milliseconds. */
export const instantOptions = { minimum: 0, maximum: 8_640_000_000_000_000 } as const

/** A span: milliseconds, or text such as '30s'. */
export const spanPattern = '^\\d{1,12}(\\.\\d{1,3})?(ms|s|m|h|d)$'

type Options = Readonly<Record<string, unknown>>
type PlainSchema = Record<string, unknown>

/** Marks a property that may be missing; the mark is not part of the JSON Schema. */
const optional = Symbol('optional')

const simple =
  (type: string) =>
  (options: Options = {}): PlainSchema => ({ type, ...options })

function objectOf(properties: Record<string, PlainSchema>, options: Options = {}): PlainSchema {
  const required = Object.keys(properties).filter((key) => !(optional in properties[key]!))
  return { type: 'object', ...(required.length > 0 && { required }), properties, ...options }
}

/**
 * The builders of TypeBox that the contract uses, with TypeBox's types and the same JSON. TypeBox itself has 370 files,
 * which every command and client would load. Only the server loads it, to compile checks.
 */
export const Type: Pick<
  typeof TypeBox,
  | 'Array'
  | 'Boolean'
  | 'Integer'
  | 'Literal'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Union'
  | 'Unknown'
  | 'Unsafe'
> = {
  Array: (items: TSchema, options: Options = {}) => ({ type: 'array', items, ...options }),
  Boolean: simple('boolean'),
  Integer: simple('integer'),
  Literal: (value: string | number | boolean, options: Options = {}) => ({
    type: typeof value,
    const: value,
    ...options,
  }),
  Null: simple('null'),
  Number: simple('number'),
  Object: objectOf,
  Optional: (schema: TSchema) => Object.defineProperty({ ...schema }, optional, { value: true }),
  Record: (_key: TSchema, value: TSchema, options: Options = {}) => ({
    type: 'object',
    patternProperties: { '^.*$': value },
    ...options,
  }),
  String: simple('string'),
  Union: (anyOf: readonly TSchema[], options: Options = {}) => ({ anyOf, ...options }),
  Unknown: (options: Options = {}) => ({ ...options }),
  Unsafe: (schema: TSchema) => schema,
} as never

/** One of these words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): TUnsafe<Word> {
  return Type.Unsafe<Word>(Type.Union(words.map((word) => Type.Literal(word))))
}
