import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { type JobState, jobStates } from '../job.ts'

/**
 * A search as data: terms that must all hold. `parseSearch` reads text, `formatSearch` writes it, match-search.ts tests
 * a job. The library, HTTP, the command line and the dashboard share this grammar.
 */
export type SearchTerm = {
  /** The term matches exactly the jobs that the rest of the term does not match. */
  readonly negated: boolean
} /** Anywhere in payload, kind, id or error, in upper or lower case. */ & (
  | { readonly field: 'text'; readonly text: string }
  | { readonly field: NameField; readonly pattern: Pattern }
  | { readonly field: 'state'; readonly state: JobState }
  | { readonly field: InstantField; readonly comparison: Comparison; readonly instant: Instant }
  | { readonly field: 'attempt'; readonly comparison: Comparison | '='; readonly count: number }
  /** Anywhere in the error, in upper or lower case. Null, written `*`: the job has an error. */
  | { readonly field: 'error'; readonly text: string | null }
  /** The error of the job belongs to this group. */
  | { readonly field: 'error.group'; readonly fingerprint: string }
  /**
   * A value in the payload; an empty path means the payload itself. Numbers, true, false and null are compared as JSON
   * writes them; of a list, each item.
   */
  | { readonly field: 'payload'; readonly path: readonly string[]; readonly pattern: Pattern }
)

/** Names are compared byte by byte. `{ text: '', prefix: true }`, written `*`, matches every value. */
export interface Pattern {
  readonly text: string
  /** The name only has to begin with the text. */
  readonly prefix: boolean
}

export const nameFields = ['id', 'kind', 'queue', 'key', 'tag'] as const
export type NameField = (typeof nameFields)[number]

export const instantFields = ['created', 'run', 'started', 'finished'] as const
type InstantField = (typeof instantFields)[number]

/** Epoch milliseconds, or milliseconds from the moment of the search. */
type Instant = { readonly at: number } | { readonly fromNowMs: number }

export const comparisons = ['<=', '>=', '<', '>'] as const
export type Comparison = (typeof comparisons)[number]

/** Limits of a search text. */
export const searchLimits = { maxChars: 2_000, maxTerms: 50 } as const

/** Writes a search in the grammar of `parseSearch`: the same terms, in the same order, each in one spelling. */
export function formatSearch(terms: readonly SearchTerm[]): string {
  return terms.map((term) => (term.negated ? '-' : '') + formatTerm(term)).join(' ')
}

function formatTerm(term: SearchTerm): string {
  switch (term.field) {
    case 'text':
      // A word that begins with a minus would negate.
      return /^[^\s":<>=*-][^\s":<>=*]*$/.test(term.text) ? term.text : quote(term.text)
    case 'state':
      return `state:${term.state}`
    case 'created':
    case 'run':
    case 'started':
    case 'finished':
      return term.field + term.comparison + formatInstant(term.instant)
    case 'attempt':
      return `attempt${term.comparison}${term.count}`
    case 'error':
      return `error:${term.text === null ? '*' : formatValue(term.text)}`
    case 'error.group':
      return `error.group:${term.fingerprint}`
    case 'payload':
      return `${['payload', ...term.path.map(formatName)].join('.')}:${formatPattern(term.pattern)}`
    default:
      return `${term.field}:${formatPattern(term.pattern)}`
  }
}

function formatPattern({ text, prefix }: Pattern): string {
  if (!prefix) return formatValue(text)
  return text === '' ? '*' : `${formatValue(text)}*`
}

function formatValue(text: string): string {
  return /^[^\s"*]+$/.test(text) ? text : quote(text)
}

/** One name of a path. */
function formatName(name: string): string {
  return /^[^\s".:<>=*]+$/.test(name) ? name : quote(name)
}

function formatInstant(instant: Instant): string {
  if ('at' in instant) return new Date(instant.at).toISOString().replace(/T00:00:00\.000Z$/, '')
  const { fromNowMs } = instant
  const ms = Math.abs(fromNowMs)
  const [unit, size] = units.find(([, size]) => ms % size === 0)!
  return `${fromNowMs < 0 ? '-' : '+'}${ms / size}${unit}`
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const

function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}

/**
 * Reads a search.
 *
 *     search  = [ term { space term } ]          all terms must match
 *     term    = [ "-" ] ( field | word | quoted )
 *     field   = name ":" value | name ( "<" | "<=" | ">" | ">=" | "=" ) value | "payload" { "." name } ":" value
 *     value   = "*" | ( characters | quoted ) [ "*" ]
 *     quoted  = '"' … '"'                        with \" and \\ inside
 *
 * A word with a special character (`:` `<` `>` `=` `*` `"`) must be quoted. So a misspelt field is an error with its
 * column, never a search for a word.
 */
export function parseSearch(text: unknown, name = 'search'): readonly SearchTerm[] {
  if (typeof text !== 'string' || text.length > searchLimits.maxChars || !text.isWellFormed())
    throw invalidArgument(
      `${name} must be text of up to ${searchLimits.maxChars} characters without broken surrogates.`,
      name,
    )
  return new SearchParser(text, name).all()
}

const fieldNames = [
  ...nameFields,
  'state',
  ...instantFields,
  'attempt',
  'error',
  'error.group',
  'payload',
] as const
type FieldName = (typeof fieldNames)[number]

/** A value in the text of a search. */
interface Value extends Pattern {
  /** The index where it begins. */
  readonly at: number
}

class SearchParser {
  readonly #text: string
  readonly #name: string
  #at = 0

  constructor(text: string, name: string) {
    this.#text = text
    this.#name = name
  }

  all(): readonly SearchTerm[] {
    const terms: SearchTerm[] = []
    for (;;) {
      this.#take(/\s*/y)
      if (this.#at === this.#text.length) return terms
      if (terms.length === searchLimits.maxTerms)
        this.#fail(this.#at, `at most ${searchLimits.maxTerms} terms`)
      terms.push(this.#term())
      if (this.#at < this.#text.length && !/\s/.test(this.#text.charAt(this.#at)))
        this.#fail(this.#at, 'a space, or the end')
    }
  }

  #term(): SearchTerm {
    const negated = this.#take(/-/y) !== ''
    if (this.#text.charAt(this.#at) === '"')
      return { field: 'text', negated, text: this.#filled(this.#quoted()) }
    const begin = this.#at
    const word = this.#take(/[^\s":<>=*]+/y)
    const next = this.#text.charAt(this.#at)
    if (word === '') this.#fail(begin, 'a word, "quoted words" or a field such as kind:')
    if (word === 'payload' || word.startsWith('payload.')) {
      if (next === ':' || next === '"') return this.#payload(begin, negated)
    }
    if (next === '' || /\s/.test(next)) return { field: 'text', negated, text: word }
    if (next === '"' || next === '*') this.#fail(this.#at, `a space, or quotes around all of it`)
    const field = fieldNames.find((known) => known === word)
    if (field === undefined)
      this.#fail(begin, `a field (${fieldNames.join(', ')}), or quotes around words to be found as they are`)
    return this.#field(field, negated)
  }

  #field(field: FieldName, negated: boolean): SearchTerm {
    switch (field) {
      case 'created':
      case 'run':
      case 'started':
      case 'finished': {
        const comparison = this.#comparison(field)
        return { field, negated, comparison, instant: this.#instant(this.#value()) }
      }
      case 'attempt': {
        const comparison = this.#take(/[:=]/y) === '' ? this.#comparison(field) : '='
        return { field, negated, comparison, count: this.#count(this.#value()) }
      }
      case 'state': {
        const value = this.#after(field)
        const state = jobStates.find((known) => known === value.text && !value.prefix)
        return state ? { field, negated, state } : this.#fail(value.at, `one of ${jobStates.join(', ')}`)
      }
      case 'error': {
        const value = this.#after(field)
        if (value.prefix && value.text !== '')
          this.#fail(value.at, 'text without *, because error: finds text anywhere')
        return { field, negated, text: value.prefix ? null : this.#filled(value.text, value.at) }
      }
      case 'error.group': {
        const { text, prefix, at } = this.#after(field)
        const isFingerprint = !prefix && /^[0-9a-f]{16}$/.test(text)
        return isFingerprint
          ? { field, negated, fingerprint: text }
          : this.#fail(at, 'the fingerprint of a group, which has 16 hexadecimal digits')
      }
      case 'payload':
        // After `payload` only `:` is allowed.
        return this.#fail(this.#at, '":" and a value, as in payload.order.id:42')
      default: {
        const { text, prefix, at } = this.#after(field)
        if (text === '' && !prefix) this.#fail(at, 'text')
        return { field, negated, pattern: { text, prefix } }
      }
    }
  }

  #payload(begin: number, negated: boolean): SearchTerm {
    // Read again from the start, because the names may be quoted.
    this.#at = begin + 'payload'.length
    const path: string[] = []
    while (this.#take(/\./y) !== '') {
      const isQuoted = this.#text.charAt(this.#at) === '"'
      const name = isQuoted ? this.#quoted() : this.#take(/[^\s".:<>=*]+/y)
      if (name === '' && !isQuoted) this.#fail(this.#at, 'a name, as in payload.order.id')
      path.push(name)
    }
    const { text, prefix } = this.#after('payload')
    return { field: 'payload', negated, path, pattern: { text, prefix } }
  }

  /** Reads `:` and the value behind it. */
  #after(field: FieldName): Value {
    if (this.#take(/:/y) === '') this.#fail(this.#at, `":" after ${field}`)
    return this.#value()
  }

  #comparison(field: FieldName): Comparison {
    const comparison = this.#take(/[<>]=?/y) as Comparison
    return comparisons.includes(comparison)
      ? comparison
      : this.#fail(this.#at, `one of < <= > >=${field === 'attempt' ? ' :' : ''} after ${field}`)
  }

  #value(): Value {
    const at = this.#at
    const isQuoted = this.#text.charAt(at) === '"'
    const text = isQuoted ? this.#quoted() : this.#take(/[^\s"*]+/y)
    const prefix = this.#take(/\*/y) !== ''
    if (this.#at === at) this.#fail(at, 'a value')
    if (this.#text.charAt(this.#at) === '*')
      this.#fail(this.#at, 'one * at the end, or quotes around the value')
    return { text, prefix, at }
  }

  /** Reads from a quotation mark to behind the closing one. */
  #quoted(): string {
    const begin = this.#at++
    let text = ''
    for (;;) {
      text += this.#take(/[^"\\]+/y)
      if (this.#take(/"/y) !== '') return text
      const at = this.#at
      const escaped = this.#take(/\\["\\]/y)
      if (escaped !== '') text += escaped.charAt(1)
      else if (at === this.#text.length) this.#fail(begin, 'a quotation mark that is closed')
      else this.#fail(at, '\\" or \\\\ (a backslash in quotes is written twice)')
    }
  }

  #instant({ text, prefix, at }: Value): Instant {
    const instant = prefix ? undefined : (readSpan(text) ?? readInstant(text))
    return (
      instant ?? this.#fail(at, 'a date (2026-11-01), an instant (2026-11-01T12:00:00Z) or a span (-2h, +1d)')
    )
  }

  #count({ text, prefix, at }: Value): number {
    const isCount = !prefix && /^\d{1,6}$/.test(text)
    return isCount ? Number(text) : this.#fail(at, 'a whole number')
  }

  #filled(text: string, at: number = this.#at): string {
    return text === '' ? this.#fail(at, 'text') : text
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0] ?? ''
    this.#at += found.length
    return found
  }

  #fail(at: number, expected: string): never {
    const column = at + 1
    throw new SignalboxError(
      'invalid_argument',
      `${this.#name} does not parse: at column ${column} it needs ${expected}.`,
      { details: { option: this.#name, column, expected } },
    )
  }
}

const unitMs: Readonly<Record<string, number>> = Object.fromEntries(units)
/** A century. */
const maxSpanMs = 3_155_760_000_000

function readSpan(text: string): { readonly fromNowMs: number } | undefined {
  const [, sign, count, unit] = /^([+-])(\d{1,13})(ms|s|m|h|d)$/.exec(text) ?? []
  if (unit === undefined) return undefined
  const ms = Number(count) * unitMs[unit]!
  // `0 - ms` avoids -0, which differs from 0 when terms are compared.
  return ms > maxSpanMs ? undefined : { fromNowMs: sign === '-' ? 0 - ms : ms }
}

const lastInstant = Date.parse('9999-12-31T23:59:59.999Z')

/** Reads a time without a zone as UTC, so that a search means the same everywhere. */
function readInstant(text: string): { readonly at: number } | undefined {
  const [, day, time = 'T00:00', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? []
  if (day === undefined) return undefined
  // `Date.parse` accepts the 30th of February as the 2nd of March.
  const midnight = Date.parse(`${day}T00:00Z`)
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day) return undefined
  const at = Date.parse(`${day}${time}${zone}`)
  // `formatSearch` writes four digits of the year.
  return at >= 0 && at <= lastInstant ? { at } : undefined
}
