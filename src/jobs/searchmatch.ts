import { decodeError } from './decode.ts'
import { decodeTags } from './meta.ts'
import { isSealed } from './sealtext.ts'
import type { Comparison, Pattern, PayloadTerm, SearchTerm } from './searchterm.ts'
import type { JobRecord } from './store.ts'

/**
 * Whether a job is meant, by all the terms; `now` is what spans count from. What costs little is asked first, and a
 * payload is parsed once, and only where its text does not rule it out.
 */
export function createMatcher(terms: readonly SearchTerm[], now: number): (record: JobRecord) => boolean {
  const tests = terms
    .toSorted((a, b) => costOf(a) - costOf(b))
    .map((term) => ({ negated: term.negated, holds: testOf(term, now) }))
  return (record) => {
    // Words would be found in it that nobody wrote.
    const seen = new SeenRecord(isSealed(record.payload) ? { ...record, payload: '{}' } : record)
    return tests.every(({ negated, holds }) => holds(seen) !== negated)
  }
}

/** A record, and what of it was taken apart already. */
class SeenRecord {
  readonly record: JobRecord
  #payload: { readonly value: unknown } | undefined

  constructor(record: JobRecord) {
    this.record = record
  }

  /** Undefined where what is kept is not JSON. */
  get payload(): unknown {
    this.#payload ??= { value: parse(this.record.payload) }
    return this.#payload.value
  }
}

type Test = (seen: SeenRecord) => boolean

function costOf({ field }: SearchTerm): number {
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
      const holds = errorTest(term.text)
      return ({ record }) => holds(record.error)
    }
    case 'tag':
      return ({ record }) =>
        record.meta !== null && decodeTags(record.meta).some((tag) => fits(tag, term.pattern))
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
  const inPayload = jsonTextTest(text)
  const inError = errorTest(text)
  return (seen) => {
    const { id, kind, error } = seen.record
    if (id.includes(needle) || kind.toLowerCase().includes(needle)) return true
    return inPayload(seen) || inError(error)
  }
}

/** Its name, message and code; a stack has words that nobody means. */
function errorTest(text: string): (error: string | null) => boolean {
  const needle = text.toLowerCase()
  return (error) => {
    if (error === null) return false
    const { name, message, code } = decodeError(error)!
    return [name, message, code].some(
      (said) => said !== undefined && String(said).toLowerCase().includes(needle),
    )
  }
}

/**
 * Whether a name or a value of the payload has some text in it. First its JSON is asked, which is quick: what is in a
 * value is in that as well, unless it writes characters as numbers. Only where it may be is it taken apart, for `{"a":`
 * and `\n` are no text of anybody's.
 */
function jsonTextTest(text: string): Test {
  const needle = text.toLowerCase()
  const written = JSON.stringify(text).slice(1, -1).toLowerCase()
  return (seen) => {
    const json = seen.record.payload
    if (!json.toLowerCase().includes(written) && !json.includes('\\u')) return false
    const value = seen.payload
    // What is no JSON is asked as it stands.
    return value === undefined ? json.toLowerCase().includes(needle) : hasText(value, needle)
  }
}

function hasText(value: unknown, needle: string): boolean {
  if (typeof value !== 'object' || value === null) return String(value).toLowerCase().includes(needle)
  if (Array.isArray(value)) return value.some((item) => hasText(item, needle))
  return Object.entries(value).some(
    ([name, item]) => name.toLowerCase().includes(needle) || hasText(item, needle),
  )
}

function payloadTest({ path, pattern }: PayloadTerm): Test {
  // A name that is on the way must be in the text; so most payloads need not be parsed.
  const names = path.map((name) => JSON.stringify(name).slice(1, -1)).filter((name) => !/^\d+$/.test(name))
  const isIn = (value: unknown): boolean => {
    if (value === undefined) return false
    if (pattern.prefix && pattern.text === '') return true
    if (Array.isArray(value)) return value.some(isIn)
    return (typeof value !== 'object' || value === null) && fits(String(value), pattern)
  }
  return (seen) => {
    const json = seen.record.payload
    if (!json.includes('\\u') && !names.every((name) => json.includes(name))) return false
    return valuesAt(seen.payload, path).some(isIn)
  }
}

/** What a path leads to. Through a list it goes by an item's number, and into each of its items. */
function valuesAt(value: unknown, path: readonly string[]): readonly unknown[] {
  const [name, ...rest] = path
  if (name === undefined) return [value]
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && !/^\d+$/.test(name)) return value.flatMap((item) => valuesAt(item, path))
  return Object.hasOwn(value, name) ? valuesAt((value as Readonly<Record<string, unknown>>)[name], rest) : []
}

function fits(value: string, { text, prefix }: Pattern): boolean {
  return prefix ? value.startsWith(text) : value === text
}

function compares(value: number, comparison: Comparison | '=', other: number): boolean {
  switch (comparison) {
    case '<':
      return value < other
    case '<=':
      return value <= other
    case '>':
      return value > other
    case '>=':
      return value >= other
    case '=':
      return value === other
  }
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
