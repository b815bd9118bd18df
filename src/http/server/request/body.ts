import { isUtf8 } from 'node:buffer'
import { within } from '../../../core/clock.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { type BodyLimits, maxBodyDepth } from '../../contract/index.ts'

/**
 * A body is judged before anything is made of it. One pass over its bytes counts brackets, keys and depth, and allocates
 * nothing, so a body made to be expensive costs no more than its length; only what passes is parsed. The pass does not
 * check the grammar: what is not JSON at all is the parser's to say, and it stops at the first mistake.
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

/** Whether it begins like a list. */
export function isList(bytes: Uint8Array): boolean {
  for (const byte of bytes) if (!isSpace(byte)) return byte === openBracket
  return false
}

export function bodyTooLarge(maxBytes: number): SignalboxError {
  return new SignalboxError('too_large', `The body is larger than ${maxBytes} bytes. Send it in parts.`, {
    details: { maxBytes },
  })
}

export function bodyTooLate(): SignalboxError {
  return new SignalboxError('request_timeout', 'The request took too long to arrive. Send it again.')
}

/** Waits for a body; throws `request_timeout` when it takes longer. */
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

/** Empty lists are a hundred times dearer than their bytes; more than this no honest body has. */
const maxContainers = 250_000

/** By depth: whether what is open there is the value of a key `constructor`. */
const ofConstructor = new Uint8Array(maxBodyDepth + 1)

function scan(bytes: Buffer, { maxBytes, maxKeys }: BodyLimits): void {
  const { length } = bytes
  if (length > maxBytes) throw bodyTooLarge(maxBytes)
  let depth = 0
  let keys = 0
  let containers = 0
  // Where the last string was, without its quotes: before a colon, that is a key.
  let begin = 0
  let end = 0
  let isEscaped = false
  let isAfterConstructor = false
  for (let at = 0; at < length; at++) {
    switch (bytes[at]) {
      case quote:
        begin = at + 1
        end = endOfText(bytes, begin)
        isEscaped = hasEscape
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

/** Of the text that `endOfText` saw last. */
let hasEscape = false
/** So much of a text is read byte by byte; most is shorter. A longer one is worth a call into native code. */
const shortText = 64

/** Where the closing quote of a text is; the end of all when it has none. */
function endOfText(bytes: Buffer, begin: number): number {
  const { length } = bytes
  hasEscape = false
  const near = Math.min(length, begin + shortText)
  const at = skipText(bytes, begin, near)
  if (at < near) return at
  const quoteAt = bytes.indexOf(quote, at)
  const end = quoteAt === -1 ? length : quoteAt
  const firstEscape = bytes.subarray(at, end).indexOf(backslash)
  if (firstEscape === -1) return Math.max(at, end)
  return skipText(bytes, at + firstEscape, length)
}

/** Reads on to a quote, or to `until`; a backslash takes the next byte with it. */
function skipText(bytes: Buffer, from: number, until: number): number {
  let at = from
  while (at < until && bytes[at] !== quote) {
    if (bytes[at] === backslash) {
      hasEscape = true
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

/** Any of its letters may be written as `\u…`, in six bytes; a longer key is none of the three. */
function decodeKey(bytes: Uint8Array, begin: number, end: number): Poison {
  if (end - begin > constructorWord.length * 6) return undefined
  try {
    const written = Buffer.from(bytes.buffer, bytes.byteOffset + begin, end - begin).toString('latin1')
    const key = Buffer.from(JSON.parse(`"${written}"`) as string)
    return compareKey(key, 0, key.length)
  } catch {
    // Not JSON, as the parser will say.
    return undefined
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/** The parser's own words quote the body, which may hold what belongs in no log. */
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
