import { isUtf8 } from 'node:buffer'
import { within } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { type BodyLimits, maxBodyDepth } from '../../contract/index.ts'

/**
 * Checks a body before it parses it. One pass over the bytes counts brackets, keys and depth and allocates nothing, so
 * a malicious body costs no more than its length. The pass does not check the grammar: the parser does, and stops at
 * the first mistake.
 */
export function parseBody(bytes: Uint8Array, limits: BodyLimits): unknown {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  scan(buffer, limits)
  if (!isUtf8(buffer)) throw refused('The body is not valid UTF-8.')
  try {
    return JSON.parse(buffer.toString())
  } catch (error) {
    throw refused(notJson(error), error)
  }
}

/** Whether the body begins like a list. */
export function isList(bytes: Uint8Array): boolean {
  for (const byte of bytes) if (!isSpace(byte)) return byte === openBracket
  return false
}

export function bodyTooLarge(maxBytes: number): SignalboxError {
  return new SignalboxError('too_large', `The body is larger than ${maxBytes} bytes. Send it in parts.`, {
    details: { maxBytes },
  })
}

function bodyTooLate(): SignalboxError {
  return new SignalboxError('request_timeout', 'The request took too long to arrive. Send it again.')
}

/** Waits for a body. Throws `request_timeout` after the timeout. */
export function readInTime<Body>(timeoutMs: number, reading: Body | Promise<Body>): Promise<Body> {
  return within(timeoutMs, reading, () => {
    throw bodyTooLate()
  })
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** A parsed empty list takes a hundred times its bytes. No legitimate body has more containers than this. */
const maxContainers = 250_000

/** By depth: whether the open container is the value of a key `constructor`. */
const ofConstructor = new Uint8Array(maxBodyDepth + 1)

function scan(bytes: Buffer, { maxBytes, maxKeys }: BodyLimits): void {
  const { length } = bytes
  if (length > maxBytes) throw bodyTooLarge(maxBytes)
  let depth = 0
  let keys = 0
  let containers = 0
  // The last string without its quotes. If a colon follows, it is a key.
  let begin = 0
  let end = 0
  let isEscaped = false
  let isAfterConstructor = false
  for (let at = 0; at < length; at++) {
    switch (bytes[at]) {
      case quote:
        begin = at + 1
        end = endOfText(bytes, begin)
        isEscaped = lastTextHasEscape
        at = end
        break
      case colon: {
        if (++keys > maxKeys) throw tooManyKeys(maxKeys)
        const key = isEscaped ? decodeKey(bytes, begin, end) : compareKey(bytes, begin, end)
        if (key === 'proto' || (key === 'prototype' && ofConstructor[depth] === 1)) throw poisoned()
        isAfterConstructor = key === 'constructor'
        break
      }
      case comma:
        isAfterConstructor = false
        break
      case openBracket:
      case openBrace:
        if (++depth > maxBodyDepth) throw tooDeep()
        if (++containers > maxContainers) throw tooManyContainers()
        ofConstructor[depth] = isAfterConstructor ? 1 : 0
        isAfterConstructor = false
        break
      case closeBracket:
      case closeBrace:
        depth--
        isAfterConstructor = false
        break
    }
  }
}

/** Whether the text that `endOfText` read last has a backslash; `skipText` sets it. */
let lastTextHasEscape = false
/** The scan reads so many bytes of a text one by one; most texts are shorter. A longer one is worth a native call. */
const shortText = 64

/** The position of the closing quote of a text, or the end of the body. */
function endOfText(bytes: Buffer, begin: number): number {
  const { length } = bytes
  lastTextHasEscape = false
  const near = Math.min(length, begin + shortText)
  const at = skipText(bytes, begin, near)
  if (at < near) return at
  const quoteAt = bytes.indexOf(quote, at)
  const end = quoteAt === -1 ? length : quoteAt
  const firstEscape = bytes.subarray(at, end).indexOf(backslash)
  if (firstEscape === -1) return Math.max(at, end)
  return skipText(bytes, at + firstEscape, length)
}

/** Reads to a quote or to `until`. Skips the byte after a backslash. */
function skipText(bytes: Buffer, from: number, until: number): number {
  let at = from
  while (at < until && bytes[at] !== quote) {
    if (bytes[at] === backslash) {
      lastTextHasEscape = true
      at++
    }
    at++
  }
  return at
}

type Poison = 'proto' | 'constructor' | 'prototype' | undefined

const protoWord = Buffer.from('__proto__')
const constructorWord = Buffer.from('constructor')
const prototypeWord = Buffer.from('prototype')

function compareKey(bytes: Uint8Array, begin: number, end: number): Poison {
  switch (end - begin) {
    case protoWord.length:
      if (equals(bytes, begin, protoWord)) return 'proto'
      return equals(bytes, begin, prototypeWord) ? 'prototype' : undefined
    case constructorWord.length:
      return equals(bytes, begin, constructorWord) ? 'constructor' : undefined
    default:
      return undefined
  }
}

function equals(bytes: Uint8Array, begin: number, word: Uint8Array): boolean {
  for (let i = 0; i < word.length; i++) if (bytes[begin + i] !== word[i]) return false
  return true
}

/** Each letter may be an escape `\u…` of six bytes. A longer key is none of the three. */
function decodeKey(bytes: Uint8Array, begin: number, end: number): Poison {
  if (end - begin > constructorWord.length * 6) return undefined
  try {
    const written = Buffer.from(bytes.buffer, bytes.byteOffset + begin, end - begin).toString('latin1')
    const key = Buffer.from(JSON.parse(`"${written}"`) as string)
    return compareKey(key, 0, key.length)
  } catch {
    // Not JSON: the parser will report it.
    return undefined
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** The parser's own message quotes the body, which may hold secrets that must not reach a log. */
function notJson(error: unknown): string {
  const { message } = error as Error
  if (/end of JSON/.test(message)) return 'The body is not JSON: it ends too early.'
  const [, position] = /at position (\d+)/.exec(message) ?? []
  return position === undefined
    ? 'The body is not JSON.'
    : `The body is not JSON: the character at position ${position} is unexpected.`
}

function refused(message: string, cause?: unknown): SignalboxError {
  return new SignalboxError('invalid_argument', message, cause === undefined ? {} : { cause })
}

function poisoned(): SignalboxError {
  return refused('The body has a key "__proto__" or "constructor.prototype". Remove it.')
}

function tooDeep(): SignalboxError {
  return refused(`The body is nested more than ${maxBodyDepth} levels deep. Flatten it.`)
}

function tooManyKeys(maxKeys: number): SignalboxError {
  return new SignalboxError('too_large', `The body has more than ${maxKeys} keys. Send it in parts.`, {
    details: { maxKeys },
  })
}

function tooManyContainers(): SignalboxError {
  return new SignalboxError(
    'too_large',
    `The body has more than ${maxContainers} lists and objects. Send it in parts.`,
    { details: { maxContainers } },
  )
}
