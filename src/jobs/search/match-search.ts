import { fingerprintError } from '../attempts/error-fingerprint.ts'
import { decodeError } from '../decode-job.ts'
import { isSealed } from '../encryption/sealed-text.ts'
import { decodeMeta } from '../job-facts.ts'
import type { JobRecord } from '../job-store.ts'
import type { Comparison, Pattern, SearchTerm } from './search-terms.ts'

/**
 * Decides whether a job matches all terms; spans count from `now`. Cheap tests run first. A payload is parsed at most
 * once, and only if its text does not rule out a match.
 *
 * A term on sealed or hidden data is undecided: neither the term nor its negation matches. Otherwise
 * `-payload.name:Ann` would match Ann's job, and a bulk operation would delete it.
 */
export function createMatcher(terms: readonly SearchTerm[], now: number): (record: JobRecord) => boolean {
  if (terms.length === 0) return () => true
  const tests = terms
    .toSorted((a, b) => costOf(a) - costOf(b))
    .map((term) => ({ negated: term.negated, holds: testOf(term, now) }))
  return (record) => {
    const seen = new SeenRecord(record)
    return tests.every(({ negated, holds }) => holds(seen) === !negated)
  }
}

class SeenRecord {
  readonly record: JobRecord
  /** Whether its payload is sealed. */
  readonly isSealed: boolean
  #payload: { readonly value: unknown } | undefined

  constructor(record: JobRecord) {
    this.record = record
    this.isSealed = isSealed(record.payload)
  }

  /** Whether the value replaces a hidden one. */
  hides(value: unknown): boolean {
    return value !== undefined && value === this.record.hiddenAs
  }

  /** Whether its payload may contain hidden values. */
  get hidesSome(): boolean {
    const { hiddenAs, payload } = this.record
    return hiddenAs !== undefined && payload.includes(hiddenAs)
  }

  /** Undefined if the stored text is not JSON. */
  get payload(): unknown {
    this.#payload ??= { value: parse(this.record.payload) }
    return this.#payload.value
  }
}

/** Returns undefined if it cannot decide. */
type Test = (seen: SeenRecord) => boolean | undefined

function costOf({ field }: SearchTerm): number {
  if (field === 'error.group') return 3
  if (field === 'text' || field === 'payload') return 2
  return field === 'error' || field === 'tag' ? 1 : 0
}

function testOf(term: SearchTerm, now: number): Test {
  switch (term.field) {
    case 'text':
      return textTest(term.text)
    case 'state':
      return ({ record }) => record.state === term.state
    case 'created':
    case 'run':
    case 'started':
    case 'finished': {
      const { instant, comparison } = term
      const at = 'at' in instant ? instant.at : now + instant.fromNowMs
      const key = `${term.field}At` as const
      return ({ record }) => {
        const value = record[key]
        return value !== null && compares(value, comparison, at)
      }
    }
    case 'attempt':
      return ({ record }) => compares(record.attempt, term.comparison, term.count)
    case 'error': {
      if (term.text === null) return ({ record }) => record.error !== null
      return errorTest(term.text)
    }
    case 'error.group':
      return ({ record }) => groupOf(record) === term.fingerprint
    case 'tag':
      return ({ record }) =>
        record.meta !== null && decodeMeta(record.meta).tags.some((tag) => fits(tag, term.pattern))
    case 'key':
      return ({ record }) => record.uniqueKey !== null && fits(record.uniqueKey, term.pattern)
    case 'payload':
      return payloadTest(term)
    default: {
      const { field, pattern } = term
      return ({ record }) => fits(record[field], pattern)
    }
  }
}

function textTest(text: string): Test {
  const needle = text.toLowerCase()
  const parts = [jsonTextTest(text), errorTest(text)]
  return (seen) => {
    const { id, kind } = seen.record
    if (id.includes(needle) || kind.toLowerCase().includes(needle)) return true
    return some(parts, (holds) => holds(seen))
  }
}

/** Whether it holds for one of them; undefined if at most the undecided ones do. */
function some<Item>(items: Iterable<Item>, holds: (item: Item) => boolean | undefined): boolean | undefined {
  let answer: boolean | undefined = false
  for (const item of items) {
    const one = holds(item)
    if (one === true) return true
    if (one === undefined) answer = undefined
  }
  return answer
}

/** Searches name, message and code, not the stack. */
function errorTest(text: string): Test {
  const needle = text.toLowerCase()
  return (seen) => {
    const { error } = seen.record
    if (error === null) return false
    const { name, message, code } = decodeError(error)!
    return some([name, message, code], (said) => {
      if (said === undefined) return false
      return seen.hides(said) ? undefined : String(said).toLowerCase().includes(needle)
    })
  }
}

/**
 * Tests whether a name or a value of the payload contains the text. It searches the JSON text first, which is fast: the
 * JSON contains all values, unless it has `\u` escapes. After a hit it parses, because `{"a":` and `\n` are not part of
 * any value.
 */
function jsonTextTest(text: string): Test {
  const needle = text.toLowerCase()
  const written = JSON.stringify(text).slice(1, -1).toLowerCase()
  const isIn = (seen: SeenRecord, value: unknown): boolean | undefined => {
    if (seen.hides(value)) return undefined
    if (typeof value !== 'object' || value === null) return String(value).toLowerCase().includes(needle)
    if (!Array.isArray(value) && Object.keys(value).some((name) => name.toLowerCase().includes(needle)))
      return true
    return some(Object.values(value), (item) => isIn(seen, item))
  }
  return (seen) => {
    const json = seen.record.payload
    if (seen.isSealed) return undefined
    if (!seen.hidesSome && !json.toLowerCase().includes(written) && !json.includes('\\u')) return false
    // A text that is not JSON counts as one value.
    return isIn(seen, seen.payload === undefined ? json : seen.payload)
  }
}

function payloadTest({ path, pattern }: Extract<SearchTerm, { field: 'payload' }>): Test {
  // The JSON text must contain the names of the path. So most payloads are not parsed.
  const names = path.map((name) => JSON.stringify(name).slice(1, -1)).filter((name) => !/^\d+$/.test(name))
  const isAny = pattern.prefix && pattern.text === ''
  const isIn = (seen: SeenRecord, value: unknown): boolean | undefined => {
    if (value === undefined) return false
    if (value === hiddenValues) return undefined
    // The presence of a value is no secret.
    if (isAny) return true
    if (seen.hides(value)) return undefined
    if (Array.isArray(value)) return some(value, (item) => isIn(seen, item))
    return (typeof value !== 'object' || value === null) && fits(String(value), pattern)
  }
  return (seen) => {
    if (seen.isSealed) return isAny && path.length === 0 ? true : undefined
    const json = seen.record.payload
    if (!seen.hidesSome && !json.includes('\\u') && !names.every((name) => json.includes(name))) return false
    return some(valuesAt(seen, seen.payload, path), (value) => isIn(seen, value))
  }
}

/** Stands for the values of a path inside hidden data. */
const hiddenValues = Symbol('hiddenValues')

/** The values of a path. A number in the path selects an item of a list; any other name applies to all items. */
function valuesAt(seen: SeenRecord, value: unknown, path: readonly string[]): readonly unknown[] {
  const [name, ...rest] = path
  if (name === undefined) return [value]
  if (seen.hides(value)) return [hiddenValues]
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && !/^\d+$/.test(name)) return value.flatMap((item) => valuesAt(seen, item, path))
  const { [name]: next } = value as Readonly<Record<string, unknown>>
  return Object.hasOwn(value, name) ? valuesAt(seen, next, rest) : []
}

function fits(value: string, { text, prefix }: Pattern): boolean {
  return prefix ? value.startsWith(text) : value === text
}

const comparisonsByName: Readonly<Record<Comparison | '=', (a: number, b: number) => boolean>> = {
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
  '=': (a, b) => a === b,
}

function compares(value: number, comparison: Comparison | '=', other: number): boolean {
  return comparisonsByName[comparison](value, other)
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** The group of a job's error. It counts the whole error, even if some of it is hidden. */
function groupOf({ kind, error, errorGroup }: JobRecord): string | undefined {
  return errorGroup ?? (error === null ? undefined : fingerprintError(kind, error))
}
