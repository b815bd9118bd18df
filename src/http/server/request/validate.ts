import { Compile } from 'typebox/schema'
import { SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import type { Schema } from '../../contract/index.ts'
import { describeValidationError } from './describe-validation-error.ts'

/**
 * Whether a value is as its schema says. The check is compiled and quick; only when it fails does anybody look for the
 * words. Each schema is compiled once, when it is first met.
 */
export function validate(subject: Subject, schema: Schema, value: unknown): void {
  if (checkOf(schema)(value)) return
  const { place, text } = describeValidationError(subject, schema, value)
  if (isTooLong(schema, value)) throw new SignalboxError('too_large', text)
  const details = { in: subject.what, ...(place !== '' && { option: place }) }
  throw new SignalboxError('invalid_argument', text, { details })
}

/** A list that is longer than is taken, where the whole is one: that is a matter of size, as a body's bytes are. */
function isTooLong(schema: Schema, value: unknown): boolean {
  if (!Array.isArray(value)) return false
  const { anyOf = [schema] } = schema as { readonly anyOf?: readonly Schema[] }
  return anyOf.some(
    (choice) => value.length > ((choice as { readonly maxItems?: number }).maxItems ?? Infinity),
  )
}

/** What is judged, as messages call it. */
export interface Subject {
  /** 'The body' */
  readonly what: string
  /** One thing in it: 'field' */
  readonly part: string
}

export const bodySubject: Subject = { what: 'The body', part: 'field' }
export const querySubject: Subject = { what: 'The query', part: 'parameter' }
export const pathSubject: Subject = { what: 'The path', part: 'parameter' }

type Check = (value: unknown) => boolean

const checks = new WeakMap<Schema, Check>()

/** Compiled the first time that it is asked for. */
export function checkOf(schema: Schema): Check {
  const known = checks.get(schema)
  if (known !== undefined) return known
  const compiled = Compile(schema)
  const check: Check = (value) => compiled.Check(value)
  checks.set(schema, check)
  return check
}

const compileAfterMs = 300

/**
 * Compiling every schema takes a tenth of a second, which a start should not wait for: it is done once the server has had
 * time to come up, one a turn of the event loop. Whoever comes before has theirs compiled at once.
 */
export function compileSoon(
  schemas: readonly Schema[],
  compile: (schema: Schema) => unknown = checkOf,
  afterMs: number = compileAfterMs,
): void {
  const left = [...schemas]
  const step = () => {
    const schema = left.shift()
    if (schema === undefined) return
    compile(schema)
    // Not setImmediate: one that keeps no process alive does not wake an idle event loop either.
    setTimeout(step, 0).unref()
  }
  setTimeout(step, afterMs).unref()
}

/**
 * What stands after the question mark, as the route's schema says. Text has no types, so a parameter that must be a
 * whole number or a boolean is read as one when it looks like it, and judged afterwards like any other value. Nothing
 * is taken twice, and nothing that the route does not know.
 */
export function readQuery(query: string, schema: Schema | undefined): Record<string, unknown> {
  if (query === '' && schema === undefined) return {}
  if (query.length > maxChars) throw refused(`The query is longer than ${maxChars} characters.`)
  const rules = (schema as { properties?: Readonly<Record<string, Rule>> } | undefined)?.properties ?? {}
  const values: Record<string, unknown> = {}
  for (const part of query.split('&')) {
    if (part === '') continue
    const [name, value] = readPair(part)
    // Own names only: `__proto__` and `constructor` are unknown like any other.
    if (!Object.hasOwn(rules, name)) throw unknownParameter(name, Object.keys(rules))
    if (Object.hasOwn(values, name)) throw refused(`The query has ${name} more than once.`)
    values[name] = asTyped(rules[name]!, value)
  }
  if (schema !== undefined) validate(querySubject, schema, values)
  return values
}

const maxChars = 16_384

interface Rule {
  readonly type?: string
}

function readPair(part: string): [name: string, value: string] {
  const equals = part.indexOf('=')
  return equals === -1 ? [decode(part), ''] : [decode(part.slice(0, equals)), decode(part.slice(equals + 1))]
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    throw refused('The query is not percent-encoded as it must be.')
  }
}

function asTyped({ type }: Rule, value: string): unknown {
  // As many digits as the last instant has; what is then too large is refused by the schema.
  if (type === 'integer' && /^-?\d{1,16}$/.test(value)) return Number(value)
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  return value
}

function unknownParameter(name: string, known: readonly string[]): SignalboxError {
  return refused(
    known.length === 0
      ? `The query has a parameter ${show(name)}; this route takes none.`
      : `The query has no parameter ${show(name)}; it has ${known.join(', ')}.`,
  )
}

function refused(message: string): SignalboxError {
  return new SignalboxError('invalid_argument', message)
}
