import { invalidArgument, SignalboxError } from './errors.ts'

/**
 * Checks payloads and results once, before any engine sees them, so that every engine gives the same verdict: a JSON value
 * of at most 256 KiB and 32 levels, without NUL, lone surrogates or `__proto__`. Values that JSON would change silently (NaN,
 * Date, undefined in an array, class instances) are refused by name.
 */

export const maxJsonBytes: number = 256 * 1024
export const maxJsonDepth = 32

/** The value of a JSON text; of any other text `otherwise`. Never throws. */
export function parseJson(text: string, otherwise?: unknown): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return otherwise
  }
}

/** The value as JSON text. A property that is undefined counts as absent; undefined by itself as null. */
export function encodeJson(name: string, value: unknown): string {
  if (value === undefined || value === null) return 'null'
  checkJson(name, value)
  return checkJsonSize(name, JSON.stringify(value))
}

/** The same check for callers that write the text themselves; undefined is refused. */
export function checkJson(name: string, value: unknown): void {
  path.length = 0
  path.push(name)
  measure(value, 0)
}

/** The text, if it is not too large. */
export function checkJsonSize(name: string, text: string): string {
  // A UTF-16 unit takes at most three bytes, so most text need not be counted.
  if (text.length * 3 > maxJsonBytes && encoder.encode(text).length > maxJsonBytes) throw tooLarge(name)
  return text
}

const encoder = new TextEncoder()

/** Where the walk stands: the name of the value, then keys and indexes. It becomes text only for a message. */
const path: (string | number)[] = []

/** Walks the value and returns a lower bound of its size, so that a huge value is refused before it is written out. */
function measure(value: unknown, depth: number): number {
  switch (typeof value) {
    case 'string':
      return checkText(value)
    case 'boolean':
      return 4
    case 'number':
      if (Number.isFinite(value)) return 1
      throw refused(`${value}, which JSON cannot express`)
    case 'object':
      if (value === null) return 4
      if (depth >= maxJsonDepth) throw refused(`nested more than ${maxJsonDepth} levels deep`)
      return Array.isArray(value) ? measureArray(value, depth) : measureObject(value, depth)
    default:
      throw refused(`${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}, which is not JSON`)
  }
}

function measureArray(values: readonly unknown[], depth: number): number {
  if (hasToJson(values)) throw refused('an array with toJSON')
  // Two brackets, and a comma for each but the last.
  let size = 1
  // By index: an iteration would skip holes, which JSON turns into null.
  for (let index = 0; index < values.length; index++) {
    path.push(index)
    size += measure(values[index], depth + 1) + 1
    path.pop()
    if (size > maxJsonBytes) throw tooLarge(pathText())
  }
  return size
}

function measureObject(value: object, depth: number): number {
  if (!isPlain(value)) throw refused(`a ${className(value)}, not a plain object`)
  let size = 1
  for (const key of Object.keys(value)) {
    if (key === '__proto__') throw refused('an object with a property "__proto__"')
    const item = (value as Record<string, unknown>)[key]
    if (item === undefined) continue
    size += checkText(key, 'a name in ')
    path.push(key)
    size += measure(item, depth + 1) + 2
    path.pop()
    if (size > maxJsonBytes) throw tooLarge(pathText())
  }
  return size
}

/** Made by `{}` or `Object.create(null)`, in this realm or another, and without toJSON. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== null && prototype !== Object.prototype && Object.getPrototypeOf(prototype) !== null)
    return false
  return !hasToJson(value)
}

function hasToJson(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}

function className(value: object): string {
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name
  return typeof name === 'string' && /^\w{1,60}$/.test(name) && name !== 'Object' ? name : 'value with toJSON'
}

function checkText(value: string, where = ''): number {
  if (value.length > maxJsonBytes) throw tooLarge(where + pathText())
  if (value.includes('\0')) throw refused('text with a NUL character', where)
  if (!value.isWellFormed()) throw refused('text with half of a surrogate pair', where)
  return value.length + 2
}

/** As `payload.items[3].name`. */
function pathText(): string {
  return path.reduce<string>(
    (text, part, at) =>
      at === 0 ? String(part) : typeof part === 'number' ? `${text}[${part}]` : `${text}.${part}`,
    '',
  )
}

function refused(what: string, where = ''): SignalboxError {
  const place = shorten(where + pathText())
  return invalidArgument(`${place} is ${what}. It must be plain JSON.`, place)
}

function tooLarge(where: string): SignalboxError {
  const place = shorten(where)
  return new SignalboxError(
    'too_large',
    `${place} is larger than ${maxJsonBytes} bytes as JSON. Store it elsewhere and pass its address.`,
    { details: { option: place, maxBytes: maxJsonBytes } },
  )
}

function shorten(place: string): string {
  return place.length > 120 ? `${place.slice(0, 120)}…` : place
}
