import { SignalboxError } from './errors.ts'

/**
 * The checks of all options. Each check takes the name and the value of an option. It returns the value in its exact
 * type, or throws `invalid_argument` with the option, the allowed values and the given value. A check converts nothing:
 * "5" is not 5, and 1 is not true. -0 becomes 0, and NaN is refused.
 *
 * The messages quote the value, so secrets need other checks.
 */

/** The least and the greatest value allowed, both included. */
export interface Range {
  readonly min?: number
  readonly max?: number
}

/** A whole number, 0 or more unless `min` says otherwise, exactly representable. */
export function whole(
  name: string,
  value: unknown,
  { min = 0, max = Number.MAX_SAFE_INTEGER }: Range = {},
): number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max)
    return (value as number) + 0
  return refuse(name, `a whole number ${range(min, max)}`, value)
}

/** A finite number, such as a factor or a share. */
export function real(name: string, value: unknown, { min = 0, max = Number.MAX_VALUE }: Range = {}): number {
  if (Number.isFinite(value) && (value as number) >= min && (value as number) <= max)
    return (value as number) + 0
  return refuse(name, `a number ${range(min, max)}`, value)
}

/** An instant: epoch milliseconds that a Date can hold, or a Date. */
export function instant(name: string, value: unknown): number {
  return whole(name, value instanceof Date ? value.getTime() : value, { max: 8_640_000_000_000_000 })
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A time in milliseconds: a whole number, or text such as '250ms', '30s', '1.5m', '24h', '7d'. */
export function duration(
  name: string,
  value: unknown,
  { min = 0, max = Number.MAX_SAFE_INTEGER }: Range = {},
): number {
  const ms = typeof value === 'string' ? parseDuration(value) : value
  if (Number.isSafeInteger(ms) && (ms as number) >= min && (ms as number) <= max) return (ms as number) + 0
  return refuse(
    name,
    `milliseconds ${range(min, max)}, or text like '250ms', '30s', '5m', '24h', '7d'`,
    value,
  )
}

function parseDuration(value: string): number {
  const [, digits = '', fraction = '', unit = ''] =
    /^(\d{1,12})(?:\.(\d{1,3}))?(ms|s|m|h|d)$/.exec(value) ?? []
  if (unit === 'ms') return fraction === '' ? Number(digits) : Number.NaN
  // Counted in thousandths of the unit, which are whole: 0.07 · 60,000 is not 4,200 in floating point.
  return unit === '' ? Number.NaN : Number(digits + fraction.padEnd(3, '0')) * (unitMs[unit]! / 1_000)
}

/** One of the values listed, compared by `===`. */
export function oneOf<const Value extends string | number>(
  name: string,
  value: unknown,
  allowed: readonly Value[],
): Value {
  if (allowed.includes(value as Value)) return value as Value
  return refuse(name, `one of ${allowed.map(show).join(', ')}`, value)
}

/** True or false. */
export function flag(name: string, value: unknown): boolean {
  return typeof value === 'boolean' ? value : refuse(name, 'true or false', value)
}

/** A name: 1 to `max` code points (@default 191), without control characters and lone surrogates, which some stores refuse. */
export function text(name: string, value: unknown, { max = 191 }: { readonly max?: number } = {}): string {
  if (typeof value !== 'string' || value === '') return refuse(name, textUpTo(max), value)
  // A code point is at most two units, so text of over twice the length need not be counted.
  const tooLong = value.length > max * 2 || (value.length > max && [...value].length > max)
  if (tooLong || /\p{Cc}/u.test(value) || !value.isWellFormed()) return refuse(name, textUpTo(max), value)
  return value
}

function textUpTo(max: number): string {
  return `text of 1 to ${max} characters without control characters or broken surrogates`
}

/** A function. */
export function callable<Value extends (...args: never[]) => unknown>(name: string, value: Value): Value {
  return typeof value === 'function' ? value : refuse(name, 'a function', value)
}

/**
 * Refuses keys that are not listed, so that a misspelt option is an error. `placeOf` may say where such an option
 * belongs.
 */
export function onlyKeys(
  name: string,
  options: unknown,
  keys: readonly string[],
  placeOf?: (key: string) => string | undefined,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    refuse(name, 'an object', options)
  }
  // Own keys, compared with the list itself: `__proto__` or `constructor` are unknown like any other.
  for (const key of Reflect.ownKeys(options as object)) {
    if (typeof key === 'string' && keys.includes(key)) continue
    const place = placeOf?.(String(key))
    const more = place === undefined ? `. Options: ${keys.join(', ')}.` : `. ${place}`
    throw new SignalboxError('invalid_argument', `${name} has no option ${show(String(key))}${more}`, {
      details: { option: String(key), allowed: keys },
    })
  }
}

/** Refuses unknown keys, and gives each missing or undefined option its default. */
export function withDefaults<Whole extends object>(
  name: string,
  options: Readonly<{ [Key in keyof Whole]?: Whole[Key] | undefined }> | undefined,
  defaults: Whole,
): Whole {
  if (options === undefined) return { ...defaults }
  onlyKeys(name, options, Object.keys(defaults))
  const whole = { ...defaults }
  for (const key of Object.keys(defaults) as (keyof Whole)[]) {
    if (!Object.hasOwn(options, key)) continue
    const value = options[key]
    if (value !== undefined) whole[key] = value as Whole[keyof Whole]
  }
  return whole
}

/** A value as text for a message: short, on one line. It calls no method of the value. */
export function show(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value)
    case 'bigint':
      return 'a bigint'
    case 'boolean':
    case 'undefined':
      return String(value)
    case 'object':
      if (value === null) return 'null'
      return Array.isArray(value) ? 'an array' : 'an object'
    default:
      return `a ${typeof value}`
  }
}

function range(min: number, max: number): string {
  return max >= Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`
}

/**
 * A list of up to `max` values, each checked by `check` under its own name. A value that is given twice counts once.
 * `what` names the values in the message.
 */
export function listOf<Value>(
  name: string,
  value: unknown,
  what: string,
  { min = 0, max }: Range & { readonly max: number },
  check: (name: string, value: unknown) => Value,
): readonly Value[] {
  if (!Array.isArray(value) || value.length < min || value.length > max)
    refuse(name, `a list of ${min === 0 ? 'up' : min} to ${max} ${what}`, value)
  // Not `map`, which skips holes.
  return [...new Set(Array.from(value as unknown[], (one, at) => check(`${name}[${at}]`, one)))]
}

/** Throws `invalid_argument` with the option, the allowed values and the given value. */
export function refuse(name: string, allowed: string, value: unknown): never {
  throw new SignalboxError('invalid_argument', `${name} must be ${allowed}, not ${show(value)}.`, {
    details: { option: name },
  })
}

/**
 * Refuses a missing URL, such as `process.env.DATABASE_URL` when the variable is not set. `call` is the function that got it.
 */
export function requireUrl<Url>(call: string, url: Url): asserts url is Exclude<Url, undefined> {
  if (url !== undefined && url !== null && url !== '') return
  throw new SignalboxError(
    'invalid_argument',
    `${call} got no URL: it is ${url === '' ? 'empty text' : String(url)}. If it comes from an environment variable, set the variable.`,
    { details: { option: 'url' } },
  )
}
