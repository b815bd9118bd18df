/**
 * Describes a thrown or given value as the error that is stored. The description always has a message and fits into every
 * store; reading the value cannot throw.
 *
 *     an Error                        name, message, code and stack; its other fields stay behind, for they may hold anything
 *     { error: 'boom' }               message 'boom', details { error: 'boom' }
 *     { status: 503 }, ['a', 'b']     message: the value as JSON, details: the value
 *     { message: 'no', amount: 5 }    message 'no', details: the whole object
 *     a description made before       the same description: a failure may pass through a client and a server
 */

/** Why something failed, as it is stored and shown. */
export interface Failure {
  readonly name?: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
  /** The value that was handed in, when it is an object with more in it than these fields. Above 16,000 characters: the beginning of its JSON, as text. */
  readonly details?: unknown
}

const maxMessage = 4_000
const maxStack = 8_000
const maxName = 191
const maxDetails = 16_000
const described = ['name', 'message', 'code', 'stack', 'details']

export function describeError(thrown: unknown): Failure {
  if (typeof thrown === 'string') return { message: clip(thrown, maxMessage) }
  if (typeof thrown !== 'object' || thrown === null) return { message: clip(safeString(thrown), maxMessage) }
  const name = field(thrown, 'name', maxName)
  const code = field(thrown, 'code', maxName)
  const stack = field(thrown, 'stack', maxStack)
  const json = isError(thrown) ? undefined : jsonOf(thrown)
  const message = field(thrown, 'message', maxMessage)
  return {
    ...(name === undefined ? {} : { name }),
    message: message ?? (json === undefined ? withoutMessage : messageIn(thrown, json)),
    ...(code === undefined ? {} : { code }),
    ...(stack === undefined ? {} : { stack }),
    ...(json === undefined ? {} : detailsOf(json, message !== undefined)),
  }
}

const withoutMessage = 'The handler threw a value without a message.'

/** Undefined where the JSON holds nothing. */
function jsonOf(thrown: object): string | undefined {
  const json = looseJson(thrown)
  return json === '{}' || json === '[]' ? undefined : json
}

function messageIn(thrown: object, json: string): string {
  return field(thrown, 'error', maxMessage) ?? clip(json, maxMessage)
}

function detailsOf(json: string, hasMessage: boolean): { details?: unknown } {
  const value = JSON.parse(json) as Readonly<Record<string, unknown>>
  // A description that was made before: its details are the value that was handed in then.
  const isDescribed = hasMessage && Object.keys(value).every((key) => described.includes(key))
  const details = isDescribed ? value.details : value
  if (details === undefined) return {}
  if (typeof details === 'string') return { details: clip(details, maxDetails) }
  const text = isDescribed ? JSON.stringify(details) : json
  return { details: text.length > maxDetails ? clip(text, maxDetails) : details }
}

function isError(thrown: object): boolean {
  try {
    return thrown instanceof Error
  } catch {
    return false
  }
}

export function encodeError(thrown: unknown): string {
  return JSON.stringify(describeError(thrown))
}

function field(thrown: object, name: string, max: number): string | undefined {
  try {
    const value: unknown = (thrown as Record<string, unknown>)[name]
    if (typeof value === 'string') return clip(value, max)
    return typeof value === 'number' ? String(value) : undefined
  } catch {
    return undefined
  }
}

function safeString(thrown: unknown): string {
  try {
    return thrown === undefined ? 'undefined was thrown.' : String(thrown)
  } catch {
    return 'The handler threw a value that cannot be shown.'
  }
}

function clip(text: string, max: number): string {
  const whole = sound(text)
  return whole.length > max ? `${whole.slice(0, max - 1).toWellFormed()}…` : whole
}

/**
 * The JSON of any value, for messages and errors. What JSON cannot hold (a bigint, a circle) becomes text instead of an
 * error, and characters that some stores refuse are replaced. Undefined when reading the value throws, or it has no JSON.
 */
export function looseJson(value: unknown): string | undefined {
  const holders: unknown[] = []
  function replace(this: unknown, _key: string, part: unknown): unknown {
    if (typeof part === 'string') return sound(part)
    if (typeof part === 'bigint') return String(part)
    if (typeof part !== 'object' || part === null) return part
    // `this` holds the part: holders behind it on the stack are finished.
    while (holders.length > 0 && holders.at(-1) !== this) holders.pop()
    if (holders.includes(part)) return '[circular]'
    const readable = withSoundKeys(part)
    holders.push(readable)
    return readable
  }
  try {
    return JSON.stringify(value, replace)
  } catch {
    return undefined
  }
}

/** Replaces NUL and lone surrogates, which some stores refuse. */
export function sound(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}

function withSoundKeys(part: object): object {
  if (Array.isArray(part) || Object.keys(part).every((key) => sound(key) === key)) return part
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [sound(key), value]))
}
