import type { SlowWaits } from '../../../contention/index.ts'

/**
 * The lines of the log: one event, one line of JSON. Whatever an event is given is made inert and free of secrets on its
 * way into the line, is never too long, and never throws.
 */

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Facts of an event. Texts are cut at 4,000 characters. */
export type LogFields = Readonly<Record<string, unknown>>

/** The log line of a request. */
export interface RequestLine {
  readonly requestId: string
  readonly method: string
  /** The route's id; undefined when there is none. */
  readonly route: string | undefined
  /** As it came, without the query. */
  readonly path: string
  readonly status: number
  readonly ms: number
  /** The token's id; undefined when no caller was recognised. */
  readonly principal: string | undefined
  /** The client's address, behind a trusted proxy the one that the proxy names; '' when it is not known. */
  readonly address?: string | undefined
  /** Bytes of the answer's body, where that is known. */
  readonly bytes?: number | undefined
}

const maxText = 4_000
/** No text is looked through beyond this. */
const maxRedacted = 65_536
const maxPath = 1_024
const maxDepth = 3
const maxItems = 20

/** The line of an answered request. Written out by hand: it is on the way of every one of them. */
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

/** A secret may stand in a path percent-encoded in any way, so it is looked for in what the path means as well. */
function quotePath(path: string): string {
  const cleaned = clip(redact(path), maxPath)
  if (!path.includes('%')) return quote(cleaned)
  // By hand, for a path that is wrongly encoded elsewhere must be looked through as well.
  const meant = path.replace(/%[0-7][0-9a-f]/gi, (code) =>
    String.fromCharCode(Number.parseInt(code.slice(1), 16)),
  )
  return redact(meant) === meant ? quote(cleaned) : quote(hidden)
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
      // A function or a symbol is no fact.
      return 'null'
  }
}

/** Never throws, whatever it is handed: a log line must not be what breaks a server. */
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
    return quote('something that cannot be shown')
  }
}

function encodeError(error: Error, depth: number): string {
  const { name, message, stack, cause } = error
  const { code } = error as { code?: unknown }
  // The stack begins with name and message; a driver's other fields may hold rows, statements and addresses.
  return encodeFields(Object.entries({ name, code, message, stack, cause }), depth)
}

function encodeFields(entries: readonly (readonly [string, unknown])[], depth: number): string {
  const fields = entries
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${quoteText(name)}:${encodeValue(name, value, depth + 1)}`)
  return `{${fields.join(',')}}`
}

function quoteText(text: string): string {
  // A secret that a cut had halved would no longer look like one, so the cut that counts comes last.
  return quote(clip(redact(clip(text, maxRedacted)), maxText))
}

function clip(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text
}

let lastMs = 0
let lastTime = ''

/** The time of a line. Put into words once a millisecond. */
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
 * What may stand in a log: no secret, and nothing that could pose as another line or as a command to a terminal.
 * Secrets are recognised by their looks and by the names beside them, wherever in a text they stand; too much is
 * hidden rather than too little. Every pattern is bounded, so that no text takes long to look through.
 */

export const hidden = '[redacted]'

/** The text without secrets: our own tokens, bearer and basic credentials, passwords in URLs and beside their names. */
export function redact(text: string): string {
  if (!suspicious.test(text)) return text
  return hideUrlCredentials(text)
    .replace(ownToken, `sbx_${hidden}`)
    .replace(credentials, `$1 ${hidden}`)
    .replace(assignment, `$1$2${hidden}`)
}

/** Whether a field of this name holds a secret, whatever it looks like. */
export function isSecretName(name: string): boolean {
  return secretName.test(name)
}

/** The text as a JSON string that is inert wherever it is shown: one line, no control, no change of direction. */
export function quote(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text).replace(treacherous, escapeUnit)
}

/**
 * In every word, what stands between the first `://` and the last `@`: slashes and signs included, for not everybody
 * encodes them. Word by word, for one pattern would look at the same characters again from every `://`.
 */
function hideUrlCredentials(text: string): string {
  if (!text.includes('://')) return text
  return text.replace(/[^\s"'<>]+/g, (word) => {
    const begin = word.indexOf('://')
    const end = word.lastIndexOf('@')
    return begin === -1 || end < begin ? word : `${word.slice(0, begin)}://${hidden}${word.slice(end)}`
  })
}

/** One look that says whether the others are worth their while. */
const suspicious = /sbx|:\/\/|bearer|basic|passw|pwd|secret|token|key|cookie|authorization/i
/** A token, also with its underscores percent-encoded. */
const ownToken = /sbx(?:_|%5f)[\w%-]*/gi
const credentials = /\b(bearer|basic)\s{1,8}[^\s,;"']+/gi
const secretWord = String.raw`(?:set-)?cookie|(?:proxy-)?authorization|passw(?:or)?d|pwd|secret|(?:\w{1,32}[-_])?token|(?:api|private)[-_]?key`
const assignment = new RegExp(String.raw`\b(${secretWord})(["']?\s{0,8}[=:]\s{0,8}["']?)[^\s&"',;]+`, 'gi')
const secretName = new RegExp(`^(?:${secretWord}|digest|idempotency-key)$`, 'i')

const plain = /^[\w\-./~:%@ ]*$/
/**
 * What JSON leaves as it is and a terminal or a reader may not: DEL and C1 controls, line separators, marks that turn
 * the direction of text or have no width.
 */
const treacherous =
  /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
