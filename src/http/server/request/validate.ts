import { Compile } from 'typebox/schema'
import { invalidArgument, isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import { checkTerms } from '../../../dispatch/index.ts'
import { nameOptions, type Schema, term } from '../../contract/index.ts'

/**
 * Checks a value against its schema. Each schema is compiled once, on first use. Only a failed check searches for the
 * fault to describe.
 */
export function validate(subject: Subject, schema: Schema, value: unknown): void {
  if (checkOf(schema)(value)) return
  const { path, text } = describeValidationError(subject, schema, value)
  if (isTooLong(schema, value)) throw new SignalboxError('too_large', text)
  const details = { in: subject.what, ...(path !== '' && { option: path }) }
  throw new SignalboxError('invalid_argument', text, { details })
}

/** Whether the whole value is a list that is too long. This is an error of size, like a body with too many bytes. */
function isTooLong(schema: Schema, value: unknown): boolean {
  if (!Array.isArray(value)) return false
  const { anyOf = [schema] } = schema as { readonly anyOf?: readonly Schema[] }
  return anyOf.some(
    (choice) => value.length > ((choice as { readonly maxItems?: number }).maxItems ?? Infinity),
  )
}

/** The names that messages use for the checked value. */
export interface Subject {
  /** 'The body' */
  readonly what: string
  /** A part of it: 'field' */
  readonly part: string
}

export const bodySubject: Subject = { what: 'The body', part: 'field' }
const querySubject: Subject = { what: 'The query', part: 'parameter' }
export const pathSubject: Subject = { what: 'The path', part: 'parameter' }

type Check = (value: unknown) => boolean

const checks = new WeakMap<Schema, Check>()

/** Returns the check of a schema, compiled on first use. */
export function checkOf(schema: Schema): Check {
  const known = checks.get(schema)
  if (known !== undefined) return known
  const compiled = Compile(schema)
  const check: Check = (value) => compiled.Check(value)
  checks.set(schema, check)
  return check
}

/**
 * Reads the query by the route's schema. Query text has no types. So a parameter that must be a whole number or a
 * boolean becomes one if its text looks like it, and is then validated like any other value. Unknown and repeated
 * parameters are refused.
 */
export function readQuery(query: string, schema: Schema | undefined): Record<string, unknown> {
  if (query === '' && schema === undefined) return {}
  if (query.length > maxChars) throw invalidArgument(`The query is longer than ${maxChars} characters.`)
  const rules = (schema as { properties?: Readonly<Record<string, Rule>> } | undefined)?.properties ?? {}
  const values: Record<string, unknown> = {}
  for (const part of query.split('&')) {
    if (part === '') continue
    const [name, value] = readPair(part)
    // Own names only: `__proto__` and `constructor` are unknown like any other.
    if (!Object.hasOwn(rules, name)) throw unknownParameter(name, Object.keys(rules))
    if (Object.hasOwn(values, name)) throw invalidArgument(`The query has ${name} more than once.`)
    values[name] = asTyped(rules[name]!, value)
  }
  if (schema !== undefined) validate(querySubject, schema, values)
  return values
}

const maxChars = 16_384

function readPair(part: string): [name: string, value: string] {
  const equals = part.indexOf('=')
  return equals === -1 ? [decode(part), ''] : [decode(part.slice(0, equals)), decode(part.slice(equals + 1))]
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw invalidArgument('The query is not percent-encoded correctly. Encode it again.')
  }
}

function asTyped({ type }: Rule, value: string): unknown {
  // At most the digits of the largest instant. The schema refuses a number that is still too large.
  if (type === 'integer' && /^-?\d{1,16}$/.test(value)) return Number(value)
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  return value
}

function unknownParameter(name: string, known: readonly string[]): SignalboxError {
  return invalidArgument(
    known.length === 0
      ? `The query has a parameter ${show(name)}; this route takes none.`
      : `The query has no parameter ${show(name)}; it has ${known.join(', ')}.`,
  )
}

/**
 * Describes what is wrong with a value in one sentence: the field, what it allows, and what it has. Walks schema and
 * value side by side and reports the first fault. Unknown fields come before missing ones, because a misspelt name is
 * both.
 */
export function describeValidationError(subject: Subject, schema: Schema, value: unknown): ValidationProblem {
  const problem = findFault(subject, asRule(schema), value, '')
  return problem ?? { path: '', text: `${subject.what} is not as /openapi.json describes it.` }
}

interface ValidationProblem {
  /** The path of the field: `jobs[3].kind`. Empty for the whole value. */
  readonly path: string
  readonly text: string
}

/** The keywords of JSON Schema that the routes use. */
interface Rule {
  readonly type?: string
  readonly const?: unknown
  readonly anyOf?: readonly Rule[]
  readonly properties?: Readonly<Record<string, Rule>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean
  readonly items?: Rule
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
}

function asRule(schema: Schema): Rule {
  return schema as Rule
}

function findFault(
  subject: Subject,
  rule: Rule,
  value: unknown,
  path: string,
): ValidationProblem | undefined {
  if (rule.items !== undefined && rule.items === asRule(term)) {
    const problem = findTermFault(path, value)
    if (problem !== undefined) return problem
  }
  if (checkOf(rule as Schema)(value)) return undefined
  // In a union, checks the alternative of the value's own kind.
  const alike = rule.anyOf?.find(({ type }) => isContainer(type) && isOfKind(type, value)) ?? rule
  if (!isContainer(alike.type) || !isOfKind(alike.type, value)) return refuse(subject, rule, value, path)
  return alike.type === 'object'
    ? findObjectFault(subject, alike, value as Record<string, unknown>, path)
    : findListFault(subject, alike, value as readonly unknown[], path)
}

function isContainer(type: string | undefined): type is 'object' | 'array' {
  return type === 'object' || type === 'array'
}

function isOfKind(type: 'object' | 'array', value: unknown): boolean {
  if (type === 'array') return Array.isArray(value)
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Describes terms as the library does: by the intended kind of term. */
function findTermFault(path: string, value: unknown): ValidationProblem | undefined {
  try {
    checkTerms(path, value)
    return undefined
  } catch (error) {
    if (!isSignalboxError(error)) throw error
    return { path: String(error.details.option ?? path), text: error.message }
  }
}

function findObjectFault(
  subject: Subject,
  { properties = {}, required = [], additionalProperties }: Rule,
  value: Readonly<Record<string, unknown>>,
  path: string,
): ValidationProblem | undefined {
  const names = Object.keys(properties)
  if (additionalProperties === false) {
    const unknown = Object.keys(value).find((name) => !Object.hasOwn(properties, name))
    if (unknown !== undefined) {
      const where = path === '' ? subject.what : path
      const text = `${where} has no ${subject.part} ${show(unknown)}; it has ${names.join(', ')}.`
      return { path: within(path, unknown), text }
    }
  }
  for (const name of names) {
    const rule = properties[name]!
    const inner = within(path, name)
    if (!Object.hasOwn(value, name)) {
      if (required.includes(name))
        return { path: inner, text: `${inner} is missing; it must be ${allowed(rule)}.` }
      continue
    }
    const problem = findFault(subject, rule, value[name], inner)
    if (problem !== undefined) return problem
  }
  return undefined
}

function findListFault(
  subject: Subject,
  rule: Rule,
  values: readonly unknown[],
  path: string,
): ValidationProblem | undefined {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, items } = rule
  if (values.length < minItems || values.length > maxItems) {
    const text = `${nameOf(subject, path)} must be ${allowed(rule)}, not of ${values.length}.`
    return { path, text }
  }
  if (items === undefined) return undefined
  for (const [index, value] of values.entries()) {
    const problem = findFault(subject, items, value, `${path}[${index}]`)
    if (problem !== undefined) return problem
  }
  return undefined
}

function refuse(subject: Subject, rule: Rule, value: unknown, path: string): ValidationProblem {
  return { path, text: `${nameOf(subject, path)} must be ${allowed(rule)}, not ${show(value)}.` }
}

function within(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`
}

function nameOf({ what }: Subject, path: string): string {
  return path === '' ? what : path
}

/** Describes what a rule allows. Reads after "must be". */
function allowed(rule: Rule): string {
  if (rule.anyOf !== undefined) return allowedOf(rule.anyOf)
  if ('const' in rule) return show(rule.const)
  switch (rule.type) {
    case 'object':
      return 'an object'
    case 'array':
      return `a list${countRange(rule.minItems, rule.maxItems)}`
    case 'string':
      return allowedText(rule)
    case 'integer':
      return `a whole number${range(rule)}`
    case 'number':
      return `a number${range(rule)}`
    case 'boolean':
      return 'true or false'
    case 'null':
      return 'null'
    default:
      return 'any JSON value'
  }
}

function allowedOf(choices: readonly Rule[]): string {
  if (choices.every((choice) => 'const' in choice)) return `one of ${choices.map(allowed).join(', ')}`
  return choices.map(allowed).join(', or ')
}

function allowedText({ minLength, maxLength, pattern }: Rule): string {
  if (pattern?.includes('ms|s|m|h|d')) return "text like '250ms', '30s', '5m', '24h', '7d'"
  const size = maxLength === undefined ? '' : ` of ${minLength ?? 0} to ${maxLength} characters`
  if (pattern === undefined) return `text${size}`
  return pattern === nameOptions.pattern
    ? `text${size} without control characters`
    : `text${size} that fits ${pattern}`
}

function countRange(min: number | undefined, max: number | undefined): string {
  if (max === undefined) return min === undefined ? '' : ` of ${min} or more`
  return min === undefined ? ` of at most ${max}` : ` of ${min} to ${max}`
}

function range({ minimum, maximum }: Rule): string {
  if (maximum === undefined) return minimum === undefined ? '' : ` of ${minimum} or more`
  return minimum === undefined ? ` of at most ${maximum}` : ` from ${minimum} to ${maximum}`
}
