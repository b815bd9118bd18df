import type { SlowWaits } from '../../../contention/index.ts'

/**
 * Encodes log lines: one event becomes one line of JSON. The encoder escapes control characters, hides secrets, limits
 * the length, and never throws, whatever fields an event has.
 */

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** The fields of an event. Texts are cut at 4,000 characters. */
export type LogFields = Readonly<Record<string, unknown>>

/** The log line of a request. */
export interface RequestLine {
  readonly requestId: string
  readonly method: string
  /** The route's id; undefined for an unknown route. */
  readonly route: string | undefined
  /** The path as the client sent it, without the query. */
  readonly path: string
  readonly status: number
  readonly ms: number
  /** The token's id; undefined for an unknown caller. */
  readonly principal: string | undefined
  /** The client's address; behind a trusted proxy, the address that the proxy names; '' if it is unknown. */
  readonly address?: string | undefined
  /** The bytes of the answer's body, if known. */
  readonly bytes?: number | undefined
}

const maxText = 4_000
/** The search for secrets stops here, and so does the text. */
const maxRedacted = 65_536
const maxPath = 1_024
const maxDepth = 3
const maxItems = 20

/** The line of an answered request. Built by hand for speed, because every request needs it. */
export function requestLine({
  requestId,
  method,
  route,
  path,
  status,
  ms,
  principal,
  address,
  bytes,
}: RequestLine): string {
  return (
    `{"time":"${now()}","level":"info","event":"request","requestId":${quote(requestId)},` +
    `"method":${quote(clip(redact(method), 32))},"route":${route === undefined ? 'null' : quote(route)},` +
    `"path":${quotePath(path)},"status":${status},"ms":${Math.round(ms * 1_000) / 1_000},` +
    `"principal":${principal === undefined ? 'null' : quote(principal)}` +
    `${address ? `,"address":${quote(address)}` : ''}` +
    `${bytes === undefined ? '' : `,"bytes":${bytes}`}}\n`
  )
}

/** A path may contain a percent-encoded secret, so this searches the decoded path too. */
function quotePath(path: string): string {
  const cleaned = clip(redact(path), maxPath)
  if (!path.includes('%')) return quote(cleaned)
  // Decodes by hand, because the search must also work for a path with an invalid encoding elsewhere.
  const decoded = path.replace(/%[0-7][0-9a-f]/gi, (code) =>
    String.fromCharCode(Number.parseInt(code.slice(1), 16)),
  )
  return redact(decoded) === decoded ? quote(cleaned) : quote(hidden)
}

/** The line of an event. */
export function eventLine(level: LogLevel, event: string, fields: LogFields): string {
  let line = `{"time":"${now()}","level":"${level}","event":${quoteText(event)}`
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) line += `,${quoteText(name)}:${encodeValue(name, value, 0)}`
  }
  return `${line}}\n`
}

function encodeValue(name: string, value: unknown, depth: number): string {
  if (isSecretName(name)) return quote(hidden)
  switch (typeof value) {
    case 'string':
      return quoteText(value)
    case 'number':
      return Number.isFinite(value) ? String(value) : quote(String(value))
    case 'boolean':
      return String(value)
    case 'bigint':
      return quote(String(value))
    case 'object':
      if (value === null) return 'null'
      return depth >= maxDepth ? quote('…') : encodeObject(value, depth)
    default:
      // A function or a symbol has no value to log.
      return 'null'
  }
}

/** Never throws for any value: a log line must not break the server. */
function encodeObject(value: object, depth: number): string {
  try {
    if (value instanceof Error) return encodeError(value, depth)
    if (Array.isArray(value))
      return `[${value
        .slice(0, maxItems)
        .map((item) => encodeValue('', item, depth + 1))
        .join(',')}]`
    return encodeFields(Object.entries(value).slice(0, maxItems), depth)
  } catch {
    return quote('a value that cannot be shown')
  }
}

function encodeError(error: Error, depth: number): string {
  const { name, message, stack, cause } = error
  const { code } = error as { code?: unknown }
  // Only these fields: a driver's other fields may contain rows, statements and addresses.
  return encodeFields(Object.entries({ name, code, message, stack, cause }), depth)
}

function encodeFields(entries: readonly (readonly [string, unknown])[], depth: number): string {
  const fields = entries
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${quoteText(name)}:${encodeValue(name, value, depth + 1)}`)
  return `{${fields.join(',')}}`
}

function quoteText(text: string): string {
  // A cut could split a secret so that it is not recognised, so the final cut comes after the search.
  return quote(clip(redact(clip(text, maxRedacted)), maxText))
}

function clip(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text
}

let lastMs = 0
let lastTime = ''

/** The time of a line. Formatted at most once a millisecond. */
function now(): string {
  const ms = Date.now()
  if (ms !== lastMs) {
    lastMs = ms
    lastTime = new Date(ms).toISOString()
  }
  return lastTime
}

const maxHolders = 5

/** The slow waits of one kind in one interval as a log line: a sentence for people, the figures for programs. */
export function slowWaitsLine(waits: SlowWaits): LogFields {
  const { kind, count, aboveMs, withinMs, longestMs, holders } = waits
  const many = `${count} ${count === 1 ? 'wait' : 'waits'} of ${kind} above ${aboveMs} ms`
  const mostly = holders[0] === undefined ? '' : `, mostly behind ${holders[0].holder}`
  const longest = `${(longestMs / 1_000).toFixed(1)} s`
  return {
    message: `${many} in the last ${Math.round(withinMs / 1_000)} s, longest ${longest}${mostly}`,
    ...waits,
    holders: holders.slice(0, maxHolders),
  }
}

/**
 * Makes text safe for a log: without secrets, and without characters that could fake another line or control a
 * terminal. It recognises secrets anywhere in a text, by their form and by the names before them. In doubt it hides too
 * much. Every pattern is bounded, so that no text takes long.
 */

export const hidden = '[redacted]'

/** Hides secrets: Signalbox tokens, bearer and basic credentials, passwords in URLs, and values of secret names. */
export function redact(text: string): string {
  if (!suspicious.test(text)) return text
  return hideUrlCredentials(text)
    .replace(ownToken, `sbx_${hidden}`)
    .replace(credentials, `$1 ${hidden}`)
    .replace(assignment, `$1$2${hidden}`)
}

/** Whether every value of a field with this name is a secret. */
function isSecretName(name: string): boolean {
  return secretName.test(name)
}

/** Encodes a text as a safe JSON string: one line, without control characters and changes of text direction. */
export function quote(text: string): string {
  return harmless.test(text) ? `"${text}"` : JSON.stringify(text).replace(unsafeCharacters, escapeUnit)
}

/**
 * Hides the text between the first `://` and the last `@` of every word. It may contain slashes and signs, because many
 * users do not encode them. Works word by word, because a single pattern would scan the same characters from every
 * `://`.
 */
function hideUrlCredentials(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(/[^\s"'<>]+/g, (word) => {
    const begin = word.indexOf('://')
    const end = word.lastIndexOf('@')
    return begin === -1 || end < begin ? word : `${word.slice(0, begin)}://${hidden}${word.slice(end)}`
  })
}

/** A quick test for texts that may contain a secret. */
const suspicious = /sbx|:\/\/|bearer|basic|passw|pwd|secret|token|key|cookie|authorization/i
/** A token; its underscores may be percent-encoded. */
const ownToken = /sbx(?:_|%5f)[\w%-]*/gi
const credentials = /\b(bearer|basic)\s{1,8}[^\s,;"']+/gi
const secretWord = String.raw`(?:set-)?cookie|(?:proxy-)?authorization|passw(?:or)?d|pwd|secret|(?:\w{1,32}[-_])?token|(?:api|private)[-_]?key`
const assignment = new RegExp(String.raw`\b(${secretWord})(["']?\s{0,8}[=:]\s{0,8}["']?)[^\s&"',;]+`, 'gi')
const secretName = new RegExp(`^(?:${secretWord}|digest|idempotency-key)$`, 'i')

const harmless = /^[\w\-./~:%@ ]*$/
/**
 * Characters that JSON allows but that can mislead a terminal or a reader: DEL and C1 controls, line separators, marks
 * that change the direction of text or have no width.
 */
const unsafeCharacters =
  /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
