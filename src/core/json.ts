import { SignalboxError } from './errors.ts'

/**
 * What users hand in as payload or result, judged once and before any engine sees it, so that every engine has the
 * same verdict: a JSON value of at most 256 KiB and 32 levels, without NUL, lone surrogates or `__proto__`. What
 * JSON would silently bend (NaN, Date, undefined in an array, class instances) is refused by name instead.
 */

export const maxJsonBytes: number = 256 * 1024
export const maxJsonDepth = 32

/** The value as JSON text. A property that is undefined counts as absent; undefined by itself as null. */
export function encodeJson(name: string, value: unknown): string {
  if (value === undefined || value === null) return 'null'
  checkJson(name, value)
  return checkJsonSize(name, JSON.stringify(value))
}

/** The same judgement for who writes the text itself, which is then held against the size. Undefined is none. */
export function checkJson(name: string, value: unknown): void {
  // The walk that can say where it stands costs several times as much, so it is made only when something is wrong.
  nodesLeft = maxNodes
  if (!isSound(value, 0)) measure(name, value, 0)
}

/** The text, if it is not too large. */
export function checkJsonSize(name: string, text: string): string {
  // A UTF-16 unit takes at most three bytes, so most text need not be counted.
  if (text.length * 3 > maxJsonBytes && byteLength(text) > maxJsonBytes) throw tooLarge(name)
  return text
}

const encoder = new TextEncoder()

function byteLength(text: string): number {
  return encoder.encode(text).length
}

/**
 * How many more values the quick walk looks at. One that holds the same array twice, and so on 32 levels down, is small
 * in memory and four thousand million values long; `measure` stops at the size, which costs it at most so many.
 */
let nodesLeft = 0
const maxNodes = 100_000

/** Whether all is well, as `measure` below sees it, but for the size. */
function isSound(value: unknown, depth: number): boolean {
  if (--nodesLeft < 0) return false
  if (typeof value === 'string') return value.length < 10_000 && value.isWellFormed() && !value.includes('\0')
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object') return typeof value === 'boolean'
  if (value === null) return true
  if (depth >= maxJsonDepth) return false
  if (Array.isArray(value)) {
    if (value.length > 10_000 || hasOwnWay(value)) return false
    // By index: `every` would skip holes, which JSON turns into null.
    for (let index = 0; index < value.length; index++) if (!isSound(value[index], depth + 1)) return false
    return true
  }
  if (!isPlain(value)) return false
  for (const key of Object.keys(value)) {
    const item = (value as Record<string, unknown>)[key]
    if (item === undefined) continue
    if (key === '__proto__' || !isSound(key, depth) || !isSound(item, depth + 1)) return false
  }
  return true
}

/** Walks the value; answers a lower bound of its size, so that something huge is refused before it is written out. */
function measure(path: string, value: unknown, depth: number): number {
  switch (typeof value) {
    case 'string':
      return checkText(path, value)
    case 'boolean':
      return 4
    case 'number':
      if (Number.isFinite(value)) return 1
      throw refused(path, `${value}, which JSON has no word for`)
    case 'object':
      if (value === null) return 4
      if (depth >= maxJsonDepth) throw refused(path, `nested more than ${maxJsonDepth} levels deep`)
      return Array.isArray(value) ? measureArray(path, value, depth) : measureObject(path, value, depth)
    default:
      throw refused(
        path,
        `${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}, which is not JSON`,
      )
  }
}

function measureArray(path: string, values: readonly unknown[], depth: number): number {
  if (hasOwnWay(values)) throw refused(path, 'an array with toJSON')
  // Two brackets and a comma for each but the last.
  let size = 1
  for (let index = 0; index < values.length; index++) {
    size += measure(`${path}[${index}]`, values[index], depth + 1) + 1
    if (size > maxJsonBytes) throw tooLarge(path)
  }
  return size
}

function measureObject(path: string, value: object, depth: number): number {
  if (!isPlain(value)) throw refused(path, `a ${className(value)}, not a plain object`)
  let size = 1
  for (const key of Object.keys(value)) {
    if (key === '__proto__') throw refused(path, 'an object with a property "__proto__"')
    const item = (value as Record<string, unknown>)[key]
    if (item === undefined) continue
    size += checkText(`a name in ${path}`, key) + measure(`${path}.${key}`, item, depth + 1) + 2
    if (size > maxJsonBytes) throw tooLarge(path)
  }
  return size
}

/** Made by `{}` or `Object.create(null)`, in this realm or another; and not with a way of its own to become JSON. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== null && prototype !== Object.prototype && Object.getPrototypeOf(prototype) !== null)
    return false
  return !hasOwnWay(value)
}

function hasOwnWay(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function'
}

function className(value: object): string {
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name
  return typeof name === 'string' && /^\w{1,60}$/.test(name) && name !== 'Object' ? name : 'value with toJSON'
}

function checkText(path: string, value: string): number {
  if (value.length > maxJsonBytes) throw tooLarge(path)
  if (value.includes('\0')) throw refused(path, 'text with a NUL character')
  if (!value.isWellFormed()) throw refused(path, 'text with half of a surrogate pair')
  return value.length + 2
}

function refused(path: string, what: string): SignalboxError {
  const where = path.length > 120 ? `${path.slice(0, 120)}…` : path
  return new SignalboxError('invalid_argument', `${where} is ${what}. It must be plain JSON.`, {
    details: { option: where },
  })
}

function tooLarge(path: string): SignalboxError {
  const where = path.length > 120 ? `${path.slice(0, 120)}…` : path
  return new SignalboxError(
    'too_large',
    `${where} is larger than ${maxJsonBytes} bytes as JSON. Keep it elsewhere and hand in where.`,
    { details: { option: where, maxBytes: maxJsonBytes } },
  )
}
