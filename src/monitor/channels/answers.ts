import type { OutboundReply, Robot, SendVerdict } from './channel.ts'
import { oneLine } from './paging.ts'

/**
 * What answers mean in general: no answer, HTTP's own statuses, and the JSON bodies in which the Chinese providers
 * say what went wrong, with status 200.
 */

/** A verdict from the status alone. `accepted` decides about 2xx. */
export function judgeStatus(
  reply: OutboundReply,
  hide: (text: string) => string,
  accepted: () => SendVerdict,
): SendVerdict {
  const { status } = reply
  const said = `HTTP ${status}${bodySays(reply.body, hide)}`
  if (status === 0) return judgeSilence(reply)
  if (status >= 200 && status < 300) return accepted()
  if (status === 429) {
    return { kind: 'retry', reason: said, penaltyMs: retryAfterMs(reply) ?? 1_000 }
  }
  if (status === 408 || status === 425) return { kind: 'retry', reason: said }
  // A gateway gave up waiting, or lost the one behind it: that one may have taken the message.
  if (status === 502 || status === 504) return { kind: 'unknown', reason: said }
  if (status >= 500) {
    const afterMs = retryAfterMs(reply)
    return { kind: 'retry', reason: said, ...(afterMs !== undefined && { afterMs }) }
  }
  if (status >= 300 && status < 400) {
    return { kind: 'refused', reason: `HTTP ${status}: a redirect, which is not followed; use the final url` }
  }
  return { kind: 'refused', reason: said }
}

function judgeSilence({ problem = 'no reply', sure = false }: OutboundReply): SendVerdict {
  return sure ? { kind: 'retry', reason: problem } : { kind: 'unknown', reason: problem }
}

/** What a provider's own code means: trying again is of no use, or the robot is to be left alone. */
export interface CodeMeanings {
  readonly refused: Readonly<Record<number, string>>
  readonly penaltyMs: Readonly<Record<number, number>>
}

/** A verdict from a code in a JSON body, whatever the status; without one, from the status. */
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
  const words = fields.message.map((name) => answer[name]).find((value) => typeof value === 'string')
  const said = `code ${code}${typeof words === 'string' && words !== '' ? `: ${brief(words, hide)}` : ''}`
  const penalty = penaltyMs[code]
  if (penalty !== undefined) {
    return { kind: 'retry', reason: said, penaltyMs: retryAfterMs(reply) ?? penalty }
  }
  const meaning = refused[code]
  if (meaning !== undefined) return { kind: 'refused', reason: `${meaning} (${said})` }
  // A code that is not known still says that it was not taken.
  return { kind: 'retry', reason: said }
}

const longestWaitMs = 3_600_000

function retryAfterMs({ headers }: OutboundReply): number | undefined {
  const value = headers['retry-after'] ?? headers['x-ogw-ratelimit-reset']
  if (value === undefined) return undefined
  const ms = /^\d{1,9}$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now()
  // A provider that says "in a year" does not stop a channel for a year.
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

function bodySays(body: string, hide: (text: string) => string): string {
  // A page of HTML explains nothing to the reader of the reason.
  return body === '' || body.trimStart().startsWith('<') ? '' : `: ${brief(body, hide)}`
}

function brief(text: string, hide: (text: string) => string): string {
  // Hidden before it is cut, so that no half of a secret is left over.
  const line = oneLine(hide(text))
  return line.length > 200 ? `${line.slice(0, 200).toWellFormed()}…` : line
}

/**
 * A provider's words go into reasons that people read, and a provider may repeat what it was sent, whole or in part. So
 * everything that is secret about a channel is taken out of them: secrets, urls, values of headers, and the parts of urls
 * and headers that hold keys.
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
  // Short values of a url are words and numbers that any text has; a secret is hidden however short it is.
  for (const secret of secrets) if (secret.length >= 4) own.add(secret)
  // The longest first: a url is hidden whole and not only the key in it.
  const longestFirst = [...own].sort((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, '***'), text)
}

/** Words ('services', 'send', 'Bearer') are short; keys are not. */
function isLong(part: string): boolean {
  return part.length >= 9
}

/** A receiver that refuses `Bearer KEY` repeats the key alone, and one that refuses `Basic …` what it stands for. */
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
