import type TypeBox from 'typebox'
import type { TSchema } from 'typebox'

type Options = Readonly<Record<string, unknown>>
type Plain = Record<string, unknown>

/** Marks a property that may be missing; the mark is not part of the JSON Schema. */
const optional = Symbol('optional')

const simple =
  (type: string) =>
  (options: Options = {}): Plain => ({ type, ...options })

function objectOf(properties: Record<string, Plain>, options: Options = {}): Plain {
  const required = Object.keys(properties).filter((key) => !(optional in properties[key]!))
  return { type: 'object', ...(required.length > 0 && { required }), properties, ...options }
}

/**
 * TypeBox's builders for the schemas that the contract uses, with TypeBox's types and the same JSON. TypeBox itself is 370 files;
 * every command and every client would wait for them. Only the server loads it, to compile checks.
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
