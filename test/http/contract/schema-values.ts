import * as fc from 'fast-check'
import { Check } from 'typebox/schema'

/**
 * Values from JSON Schemas, for a client that knows an API only by its description: some fit a schema, others just do
 * not. It supports the keywords that descriptions of APIs use; any other keyword is an error, so that none is overlooked.
 */
export interface JsonSchema {
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean
  readonly maxProperties?: number
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly default?: unknown
  readonly description?: string
}

const known = new Set(
  'type const enum anyOf allOf properties patternProperties required additionalProperties maxProperties items minItems maxItems minLength maxLength pattern minimum maximum default description'.split(
    ' ',
  ),
)

/** Whether a value fits. */
export function fits(schema: JsonSchema, value: unknown): boolean {
  return Check(schema as never, value)
}

/** What a field of this name may be, besides what its schema says: values that were seen under that name. */
export type Hints = (name: string) => fc.Arbitrary<unknown> | undefined

/** Values that fit, mostly as hinted: what is merely allowed seldom comes to anything. */
export function hintedValuesOf(schema: JsonSchema, name: string, hints: Hints): fc.Arbitrary<unknown> {
  const values = valuesOf(schema, hints)
  const hint = hints(name)
  if (hint === undefined) return values
  // Fields of one name are not all of one type.
  const fitting = fc.tuple(hint, values).map(([one, other]) => (fits(schema, one) ? one : other))
  return fc.oneof({ arbitrary: values, weight: 1 }, { arbitrary: fitting, weight: 6 })
}

/** Values that fit. */
export function valuesOf(schema: JsonSchema, hints: Hints = () => undefined): fc.Arbitrary<unknown> {
  for (const word of Object.keys(schema)) if (!known.has(word)) throw new Error(`What is "${word}"?`)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if ('const' in schema) return fc.constant(schema.const)
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((one) => valuesOf(one, hints)))
  switch (schema.type) {
    case 'string':
      return texts(schema)
    case 'integer': {
      const { minimum = -1_000_000, maximum = Math.max(minimum, 0) + 1_000_000 } = schema
      return fc.integer(safely(minimum, maximum))
    }
    case 'number': {
      const { minimum = -1e6, maximum = 1e6 } = schema
      return fc.double({ min: minimum, max: maximum, noNaN: true }).map((number) => number + 0)
    }
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array': {
      const { minItems = 0, maxItems = minItems + 4 } = schema
      const items = valuesOf(schema.items ?? {}, hints)
      return fc.array(items, { minLength: minItems, maxLength: Math.min(maxItems, minItems + 4) })
    }
    case 'object':
      return objects(schema, hints)
    default:
      return anything
  }
}

/** fast-check counts a range in 53 bits, its two ends together. */
function safely(min: number, max: number): { min: number; max: number } {
  return { min, max: Math.min(max, min + Number.MAX_SAFE_INTEGER) }
}

/** Any JSON; keys that reach into prototypes are refused by every route and are no valid values. */
const anything = fc
  .jsonValue({ maxDepth: 3 })
  .filter((value) => !/"(?:__proto__|constructor|prototype)"/.test(JSON.stringify(value)))

function texts({ minLength = 0, maxLength = 400, pattern }: JsonSchema): fc.Arbitrary<string> {
  const free = fc.string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, minLength + 20) })
  const long = fc.constant('x'.repeat(Math.min(maxLength, 400)))
  if (pattern === undefined) return fc.oneof({ arbitrary: free, weight: 9 }, { arbitrary: long, weight: 1 })
  const rule = new RegExp(pattern, 'u')
  const isAllowed = (text: string) =>
    rule.test(text) && text.isWellFormed() && [...text].length >= minLength && [...text].length <= maxLength
  const matching = fc
    .stringMatching(rule, { maxLength: Math.min(maxLength, Math.max(40, minLength)) })
    .filter(isAllowed)
  const edges = ['x'.repeat(maxLength), '0'.repeat(Math.max(1, minLength))].filter(isAllowed)
  return edges.length === 0
    ? matching
    : fc.oneof({ arbitrary: matching, weight: 9 }, { arbitrary: fc.constantFrom(...edges), weight: 1 })
}

function objects(schema: JsonSchema, hints: Hints): fc.Arbitrary<unknown> {
  const { properties = {}, patternProperties, required = [] } = schema
  if (patternProperties !== undefined) {
    const [field = {}] = Object.values(patternProperties)
    return fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), valuesOf(field, hints), { maxKeys: 3 })
  }
  const fields = Object.entries(properties).map(
    ([name, field]) => [name, hintedValuesOf(field, name, hints)] as const,
  )
  return fc.record(Object.fromEntries(fields), { requiredKeys: [...required] })
}

const wrong = fc.constantFrom<unknown>(null, true, -1, 1.5, 1e300, '', 'x'.repeat(10_000), '\u0000', [], {}, [
  [[]],
])

/** Values that do not fit: one that does, with something spoilt. */
export function misfitsOf(schema: JsonSchema, hints?: Hints): fc.Arbitrary<unknown> {
  const spoilt = fc
    .tuple(valuesOf(schema, hints), wrong, fc.nat(), fc.constantFrom('replace', 'remove', 'add', 'whole'))
    .map(([value, other, where, how]) => (how === 'whole' ? other : spoil(value, other, where, how)))
  return spoilt.filter((value) => !fits(schema, value))
}

/** The value with one of its places changed. */
function spoil(value: unknown, other: unknown, where: number, how: 'replace' | 'remove' | 'add'): unknown {
  const copy: unknown = structuredClone(value)
  const places = placesIn(copy)
  if (places.length === 0) return other
  const { owner, key } = places[where % places.length]!
  const fields = owner as Record<string, unknown>
  if (how === 'add') fields[`${key}x`] = other
  else if (how === 'remove') delete fields[key]
  else fields[key] = other
  return copy
}

function placesIn(value: unknown): { owner: object; key: string }[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.keys(value).flatMap((key) => [
    { owner: value, key },
    ...placesIn((value as Record<string, unknown>)[key]),
  ])
}
