import type { OutboundReply, Robot, SendVerdict } from './channel.ts'
import { oneLine } from './paging.ts'

/** Judges a reply by its HTTP status. `accepted` decides about 2xx. */
export function judgeStatus(
  reply: OutboundReply,
  hide: (text: string) => string,
  accepted: () => SendVerdict,
): SendVerdict {
  const { status } = reply
  const reason = `HTTP ${status}${quoteBody(reply.body, hide)}`
  if (status === 0) return judgeNoReply(reply)
  if (status >= 200 && status < 300) return accepted()
  if (status === 429) {
    return { kind: 'retry', reason, penaltyMs: retryAfterMs(reply) ?? 1_000 }
  }
  if (status === 408 || status === 425) return { kind: 'retry', reason }
  // A gateway had no reply of the provider, which may have accepted the message.
  if (status === 502 || status === 504) return { kind: 'unknown', reason }
  if (status >= 500) {
    const afterMs = retryAfterMs(reply)
    return { kind: 'retry', reason, ...(afterMs !== undefined && { afterMs }) }
  }
  if (status >= 300 && status < 400) {
    return { kind: 'refused', reason: `HTTP ${status}: a redirect, which is not followed; use the final url` }
  }
  return { kind: 'refused', reason }
}

function judgeNoReply({ problem = 'no reply', sure = false }: OutboundReply): SendVerdict {
  return sure ? { kind: 'retry', reason: problem } : { kind: 'unknown', reason: problem }
}

/** The codes of a provider: `refused` with its meaning, or a rate limit with the time that the robot must rest. */
export interface CodeMeanings {
  readonly refused: Readonly<Record<number, string>>
  readonly penaltyMs: Readonly<Record<number, number>>
}

/**
 * Judges a reply by the code in its JSON body: the Chinese providers reply to errors with HTTP 200. Without a code, the
 * status decides.
 */
export function judgeCode(
  reply: OutboundReply,
  fields: { readonly code: readonly string[]; readonly message: readonly string[] },
  { refused, penaltyMs }: CodeMeanings,
  hide: (text: string) => string,
): SendVerdict {
  const answer = reply.status === 0 ? undefined : parseObject(reply.body)
  const code = fields.code.map((name) => answer?.[name]).find((value) => typeof value === 'number')
  if (answer === undefined || typeof code !== 'number') {
    return judgeStatus(reply, hide, () => ({
      kind: 'unknown',
      reason: `HTTP ${reply.status}, and an answer that is not the provider's: it may or may not have been taken`,
    }))
  }
  if (code === 0) {
    if (reply.status >= 200 && reply.status < 300) return { kind: 'sent' }
    return judgeStatus(reply, hide, () => ({ kind: 'sent' }))
  }
  const message = fields.message.map((name) => answer[name]).find((value) => typeof value === 'string')
  const reason = `code ${code}${typeof message === 'string' && message !== '' ? `: ${brief(message, hide)}` : ''}`
  const penalty = penaltyMs[code]
  if (penalty !== undefined) {
    return { kind: 'retry', reason, penaltyMs: retryAfterMs(reply) ?? penalty }
  }
  const meaning = refused[code]
  if (meaning !== undefined) return { kind: 'refused', reason: `${meaning} (${reason})` }
  // An unknown code still means that the provider did not accept the message.
  return { kind: 'retry', reason }
}

const longestWaitMs = 3_600_000

function retryAfterMs({ headers }: OutboundReply): number | undefined {
  const value = headers['retry-after'] ?? headers['x-ogw-ratelimit-reset']
  if (value === undefined) return undefined
  const ms = /^\d{1,9}$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now()
  // A reply such as "in a year" must not stop a channel for a year.
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 1_000), longestWaitMs)
}

function parseObject(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function quoteBody(body: string, hide: (text: string) => string): string {
  // An HTML page explains nothing.
  return body === '' || body.trimStart().startsWith('<') ? '' : `: ${brief(body, hide)}`
}

function brief(text: string, hide: (text: string) => string): string {
  // Hide secrets before cutting, so that no part of a secret remains.
  const line = oneLine(hide(text))
  return line.length > 200 ? `${line.slice(0, 200).toWellFormed()}…` : line
}

/**
 * Returns a function that removes the secrets of a channel from a text. Reasons quote the provider, and a provider may
 * repeat parts of a request. The secrets are: secrets of robots, urls, values of headers, and parts of urls and headers
 * that hold keys.
 */
export function createHiding(
  robots: readonly Robot[],
  headerValues: readonly string[] = [],
): (text: string) => string {
  const secrets = new Set<string>(headerValues.flatMap(partsOfHeader))
  const own = new Set<string>()
  for (const { url, secret } of robots) {
    const { pathname, search, searchParams } = new URL(url)
    secrets.add(url).add(pathname + search)
    if (secret !== null) own.add(secret)
    for (const value of searchParams.values()) secrets.add(value).add(encodeURIComponent(value))
    for (const part of pathname.split('/')) if (isLong(part)) secrets.add(part).add(decoded(part))
  }
  // Short values of a url are words and numbers of any text. The secret of a robot is hidden at any length.
  for (const secret of secrets) if (secret.length >= 4) own.add(secret)
  // The longest first, so that a complete url is hidden, not only its key.
  const longestFirst = [...own].sort((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, '***'), text)
}

/** Whether a part may be a key: words ('services', 'send', 'Bearer') are shorter. */
function isLong(part: string): boolean {
  return part.length >= 9
}

/** A receiver may repeat only the key of `Bearer KEY`, or the decoded user and password of `Basic …`. */
function partsOfHeader(value: string): readonly string[] {
  const parts = value.split(/[\s,;=]+/).filter(isLong)
  const [, basic] = /^basic +(\S+)$/i.exec(value) ?? []
  if (basic === undefined) return [value, ...parts]
  const credentials = Buffer.from(basic, 'base64').toString()
  return [value, ...parts, basic, credentials, credentials.slice(credentials.indexOf(':') + 1)]
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
