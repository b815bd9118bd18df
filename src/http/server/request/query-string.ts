import { SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'
import type { Schema } from '../../contract/index.ts'
import { querySubject, validate } from './validate.ts'

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
