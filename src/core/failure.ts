/**
 * Whatever a handler threw or a caller handed in, as the error that is kept: always an object with a message, never
 * too long for any store, and never by letting the thrown thing throw again.
 */

/** Why something failed, as it is kept and shown. */
export interface Failure {
  readonly name?: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
}

const maxMessage = 4_000
const maxStack = 8_000
const maxName = 191

export function describeError(thrown: unknown): Failure {
  if (typeof thrown === 'string') return { message: clip(thrown, maxMessage) }
  if (typeof thrown !== 'object' || thrown === null) return { message: clip(safeString(thrown), maxMessage) }
  const name = field(thrown, 'name', maxName)
  const code = field(thrown, 'code', maxName)
  const stack = field(thrown, 'stack', maxStack)
  return {
    ...(name === undefined ? {} : { name }),
    message: field(thrown, 'message', maxMessage) ?? 'Something without a message was thrown.',
    ...(code === undefined ? {} : { code }),
    ...(stack === undefined ? {} : { stack }),
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
  // NUL and broken surrogates are refused by some engines; in an error they are not worth refusing.
  const sound = text.replaceAll('\0', '\ufffd').toWellFormed()
  return sound.length > max ? `${sound.slice(0, max - 1).toWellFormed()}…` : sound
}
