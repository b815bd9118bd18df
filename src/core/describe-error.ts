import { looseJson, sound } from './loose-json.ts'

/**
 * Describes what a handler threw or a caller handed in, as the error that is kept. The description always has a message,
 * fits into every store, and is made without letting the thrown value throw again.
 *
 *     an Error                        name, message, code and stack; its other fields stay behind, for they may hold anything
 *     { error: 'boom' }               message 'boom', details { error: 'boom' }
 *     { status: 503 }, ['a', 'b']     message: the value as JSON, details: the value
 *     { message: 'no', amount: 5 }    message 'no', details: the whole object
 *     a description made before       the same description: a failure may pass through a client and a server
 */

/** Why something failed, as it is kept and shown. */
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

const withoutMessage = 'Something without a message was thrown.'

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
    return 'Something that cannot be shown was thrown.'
  }
}

function clip(text: string, max: number): string {
  const whole = sound(text)
  return whole.length > max ? `${whole.slice(0, max - 1).toWellFormed()}…` : whole
}
