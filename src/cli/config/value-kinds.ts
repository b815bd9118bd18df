import { isIP } from 'node:net'
import { parseRanges } from '../../access/index.ts'
import { invalidArgument, type SignalboxError } from '../../core/errors.ts'
import { duration, flag, oneOf, type Range, show, text, whole } from '../../core/options.ts'
import { resolveRedactPaths } from '../../core/redact-paths.ts'
import { parseSecretKeys } from '../../core/secret-keys.ts'
import { type LocksOptions, resolveConflicts } from '../../locks/index.ts'

/**
 * A kind of value. Flags and variables have text; a file has JSON. `parse` converts the text into the JSON value, and
 * `check` checks both in the same way. `parse` returns a text that it cannot read unchanged, so that `check` quotes it.
 */
export interface Kind<Value> {
  parse(text: string): unknown
  /** Returns the value in its exact type. Throws `invalid_argument`. `name` is its source, such as `SIGNALBOX_PORT`. */
  check(name: string, value: unknown): Value
  /** The value for output, without secrets. */
  show(value: Value): string | number | boolean | readonly string[] | null
}

export function wholeNumber(range: Range): Kind<number> {
  return {
    parse: numberOr,
    check: (name, value) => whole(name, value, range),
    show: (value) => value,
  }
}

/** Milliseconds, or text such as '30s'. It is shown as text. */
export function span(range: Range): Kind<number> {
  return {
    parse: numberOr,
    check: (name, value) => duration(name, value, range),
    show: (value) => exactSpan(value),
  }
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** Shows an exact span in the largest unit without a fraction: `10m`, `90s`. */
function exactSpan(ms: number, gap = '', minute = 'm'): string {
  const [unit, size] = units.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${gap}${unit === 'm' ? minute : unit}`
}

/** The same with spaces: `10 min`, `90 s`. */
export function spanText(ms: number): string {
  return exactSpan(ms, ' ', 'min')
}

/** Reads the span of a flag: text such as '30s', or digits for milliseconds, as in every setting. */
export function spanOf(flag: string, given: string, range?: Range): number
export function spanOf(flag: string, given: string | undefined, range?: Range): number | undefined
export function spanOf(flag: string, given: string | undefined, range?: Range): number | undefined {
  return given === undefined ? undefined : duration(flag, numberOr(given), range)
}

/** Reads the JSON of `--payload`. */
export function parsePayload(given: string | undefined): unknown {
  if (given === undefined) return undefined
  try {
    return JSON.parse(given) as unknown
  } catch (error) {
    throw invalidArgument(
      `--payload must be JSON (${(error as Error).message}). Put text in quotes: '"text"'.`,
    )
  }
}

/** Converts digits into a number. Other text stays unchanged, so that the check quotes it. */
export function numberOr(given: string): string | number {
  return /^\d{1,15}$/.test(given) ? Number(given) : given
}

export const trueOrFalse: Kind<boolean> = {
  parse: (given) => ({ true: true, false: false })[given] ?? given,
  check: flag,
  show: (value) => value,
}

/** Text that needs no conversion. */
function textKind<Value extends string>(
  check: (name: string, value: unknown) => Value,
  show: (value: Value) => string = (value) => value,
): Kind<Value> {
  return { parse: (given) => given, check, show }
}

/** A list of texts, separated by commas in text. A file may have a single text instead of a list. */
function listKind(
  check: (name: string, values: readonly unknown[]) => readonly string[],
): Kind<readonly string[]> {
  return {
    parse: (given) => given.split(',').map((one) => one.trim()),
    check: (name, value) => check(name, Array.isArray(value) ? value : [value]),
    show: (value) => value,
  }
}

export function choice<const Value extends string>(allowed: readonly Value[]): Kind<Value> {
  return textKind((name, value) => oneOf(name, value, allowed))
}

/** One line of text, such as an address or a path. */
export function line(max: number): Kind<string> {
  return textKind((name, value) => text(name, value, { max }))
}

/** An address to listen on. Other names than localhost are refused, because their addresses may change. */
export const address: Kind<string> = textKind((name, value) => {
  const bare = typeof value === 'string' ? value.toLowerCase().replace(/^\[(.*)\]$/, '$1') : ''
  if (bare === 'localhost' || isIP(bare) !== 0) return value as string
  throw refuse(name, `an IP address or localhost, not ${show(value)}`)
})

/** A name of this server in a Host header: a DNS name or an address, and a port if the client uses one. */
const hostName = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

export const hostNames: Kind<readonly string[]> = listKind((name, values) => {
  for (const one of values) {
    if (typeof one === 'string' && one.length <= 253 && hostName.test(one)) continue
    throw refuse(name, `host names such as "jobs.example.com" or "10.0.0.5:7420", not ${show(one)}`)
  }
  return values as readonly string[]
})

/** Addresses and ranges of addresses. */
export const addressRanges: Kind<readonly string[]> = listKind((name, values) => {
  parseRanges(name, values)
  return values as readonly string[]
})

/** Paths of fields in payloads, results and errors. */
export const redactPaths: Kind<readonly string[]> = listKind(resolveRedactPaths)

/** Pairs of operations. In text, a plus sign joins a pair, and commas separate pairs. */
export const operationPairs: Kind<NonNullable<LocksOptions['conflicts']>> = {
  parse: (given) => given.split(',').map(splitPair),
  // A file may have pairs like the flag: `[pull+delete]`, or all pairs as one text.
  check: (name, value) => {
    const pairs: unknown = typeof value === 'string' ? value.split(',') : value
    const split = (pair: unknown) => (typeof pair === 'string' ? splitPair(pair) : pair)
    return resolveConflicts(name, Array.isArray(pairs) ? pairs.map(split) : pairs)
  },
  show: (value) => value.map((pair) => pair.join('+')),
}

function splitPair(pair: string): readonly string[] {
  return pair.split('+').map((operation) => operation.trim())
}

const schemes = ['memory', 'sqlite', 'postgres', 'postgresql', 'mysql', 'mariadb']

/** The address of a database. It may have a password, so no message quotes it. */
export const database: Kind<string> = textKind((name, value) => {
  const [scheme = ''] = typeof value === 'string' ? (/^[a-z]+(?=:)/.exec(value) ?? []) : []
  if (schemes.includes(scheme)) return value as string
  throw refuse(name, 'sqlite:FILE, postgres://…, mysql://… (MariaDB) or memory:')
}, nameOfDatabase)

/** The address of a Redis. It may have a password, so no message quotes it. */
export const redisAddress: Kind<string> = textKind((name, value) => {
  if (typeof value === 'string' && /^rediss?:\/\//.test(value) && URL.canParse(value)) return value
  throw refuse(name, 'redis://… or rediss://…')
}, nameOfDatabase)

/** The address for output, without user, password and parameters. */
export function nameOfDatabase(address: string): string {
  if (/^(sqlite|memory):/.test(address)) return address.replace(/\?.*$/s, '')
  const url = URL.parse(address)
  return url === null ? address.replace(/:.*$/s, ':') : `${url.protocol}//${url.host}${url.pathname}`
}

const leastSecretChars = 32

/** Describes the mistake in a bearer secret, without the secret; undefined: it is valid. */
export function secretFault(secret: string): string | undefined {
  if (secret.length < leastSecretChars)
    return `it has ${secret.length} characters, and ${leastSecretChars} are the least`
  // The characters that a header allows after `Bearer`.
  return /^[\x21-\x7e]{1,512}$/.test(secret)
    ? undefined
    : 'it must be at most 512 printable ASCII characters without spaces'
}

export const secret: Kind<string> = textKind(
  (name, value) => {
    const fault = typeof value === 'string' ? secretFault(value) : 'it must be text'
    if (fault === undefined) return value as string
    throw refuse(name, `a secret such as \`openssl rand -hex 32\` prints: ${fault}`)
  },
  () => '(set)',
)

/** Keys that seal secrets. No message quotes a key. */
export const secretKeyText: Kind<string> = textKind(
  (name, value) => {
    parseSecretKeys(name, value)
    return value as string
  },
  () => '(set)',
)

/** The same kind for a setting without a default. No value is shown as null. */
export function optional<Value>(kind: Kind<Value>): Kind<Value | undefined> {
  return { ...kind, show: (value) => (value === undefined ? null : kind.show(value)) }
}

function refuse(name: string, allowed: string): SignalboxError {
  return invalidArgument(`${name} must be ${allowed}.`, name)
}
