import { createHmac, timingSafeEqual } from 'node:crypto'
import { judgeStatus } from './answers.ts'
import {
  type ChannelConfig,
  type ChannelType,
  createChannelType,
  type Message,
  type MessageChange,
  type OutboundRequest,
  object,
  type Recipient,
  refuse,
  type Through,
} from './channel.ts'
import { oneLine, shorten } from './paging.ts'

/**
 * A signed request with the states, to a program of the subscriber, which checks it with `verifyWebhook`. A repeat has the
 * same `webhook-id`, so a receiver that remembers ids accepts every message once.
 */
export type WebhookChannel = Through<WebhookAddress> & {
  readonly type: 'webhook'
  /** Added to every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

interface WebhookAddress {
  readonly url: string
  /** The key of the signatures. */
  readonly secret: string
}

const maxBytes = 262_144

export const webhook: ChannelType = createChannelType({
  type: 'webhook',
  robots: { secret: 'required', checkSecret },
  limits: { rate: null, burst: null, maxBytes, concurrency: 8 },
  fields: ['headers'],
  readStyle: readHeaders,
  // Headers often have a token of the receiver.
  secretFields: ['headers'],
  secretValues: (headers) => Object.values(headers),
  compose,
  judge: (reply, hide) => judgeStatus(reply, hide, () => ({ kind: 'sent' })),
})

function checkSecret(name: string, secret: string): void {
  if (secret.startsWith('whsec_') && Buffer.from(secret.slice(6), 'base64').length < 8)
    refuse(name, 'base64 of 8 bytes or more after whsec_')
}

// The headers that HTTP and the signature set.
const ownHeaders =
  /^(host|connection|keep-alive|content-length|content-type|content-encoding|accept-encoding|transfer-encoding|te|trailer|upgrade|expect|proxy-.*|webhook-.*)$/

function readHeaders({ fields }: ChannelConfig): Readonly<Record<string, string>> {
  if (fields.headers === undefined) return {}
  const entries = Object.entries(object('channel.headers', fields.headers))
  if (entries.length > 20) refuse('channel.headers', 'at most 20 headers')
  const read: Record<string, string> = {}
  for (const [given, value] of entries) {
    const name = given.toLowerCase()
    if (!/^[a-z0-9-]{1,64}$/.test(name)) refuse('channel.headers', 'named with letters, digits and hyphens')
    if (ownHeaders.test(name)) refuse(`channel.headers.${name}`, 'left out: it is set by the sender itself')
    if (Object.hasOwn(read, name)) refuse(`channel.headers.${name}`, 'given once')
    const isValid = typeof value === 'string' && /^[\x20-\x7e]{1,1024}$/.test(value)
    if (!isValid) refuse(`channel.headers.${name}`, 'text of 1 to 1024 visible ASCII characters')
    else read[name] = value
  }
  return Object.freeze(read)
}

function compose(
  message: Message,
  { robot, style: headers, now }: Recipient<Readonly<Record<string, string>>>,
): readonly OutboundRequest[] {
  const timestamp = String(Math.floor(now / 1_000))
  const pages = pagesOf(message, now)
  return pages.map((changes, at) => {
    const id = pages.length === 1 ? message.id : `${message.id}-${at + 1}`
    const body = bodyOf(message, now, changes, { part: at + 1, parts: pages.length })
    return {
      url: robot.url,
      headers: {
        ...headers,
        'content-type': 'application/json; charset=utf-8',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': signWebhook(robot.secret ?? '', id, timestamp, body),
      },
      body,
    }
  })
}

type SentChange = MessageChange & { readonly statesLeftOut?: true }

function pagesOf(message: Message, now: number): readonly (readonly SentChange[])[] {
  // A repeat must have the same pages, because a receiver accepts each page once, by its number.
  const frame = bodyOf({ ...message, possibleRepeat: false }, now, [], { part: 99_999, parts: 99_999 })
  const capacity = maxBytes - Buffer.byteLength(frame)
  let page: SentChange[] = []
  const pages = [page]
  let left = capacity
  for (const change of message.changes) {
    const sent = fitChange(change, capacity)
    const bytes = bytesOf(sent)
    if (bytes > left && page.length > 0) {
      page = []
      pages.push(page)
      left = capacity
    }
    page.push(sent)
    left -= bytes
  }
  return pages
}

/** Returns the change; without its states and with a shorter line, if it alone would exceed a request. */
function fitChange(change: MessageChange, capacity: number): SentChange {
  if (bytesOf(change) <= capacity) return change
  const line = shorten(oneLine(change.line), 1_000, (text) => Buffer.byteLength(text))
  return { ...change, from: null, to: null, line, statesLeftOut: true }
}

function bytesOf(change: SentChange): number {
  return Buffer.byteLength(JSON.stringify(change)) + 1
}

function bodyOf(
  message: Message,
  now: number,
  changes: readonly SentChange[],
  { part, parts }: { readonly part: number; readonly parts: number },
): string {
  const { id, kind, possibleRepeat } = message
  const title = shorten(oneLine(message.title), 1_000, (text) => Buffer.byteLength(text))
  // The time of the last change, not of the sending, so that a repeat has the same timestamp.
  const at =
    message.changes.length === 0
      ? now
      : message.changes.reduce((latest, change) => Math.max(latest, change.at), 0)
  return JSON.stringify({
    type: `monitor.${kind}`,
    timestamp: new Date(at).toISOString(),
    data: { id, title, possibleRepeat, part, parts, changes },
  })
}

/**
 * The request to check, and the expected secret. The signature follows Standard Webhooks: HMAC-SHA-256 of
 * `id.timestamp.body`, in the header `webhook-signature` as `v1,<base64>`. A receiver checks it before it reads the body.
 */
export interface WebhookCheck {
  /** The headers of the request: Node's, with names in lower case, or a `Headers`. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>> | Headers
  /** The body as received, before it is parsed: JSON that is written again may be another text. */
  readonly body: string | Uint8Array
  /** Several secrets while one replaces another. */
  readonly secret: string | readonly string[]
  /** The most difference between the request's time and the receiver's clock, either way. @default 300_000 */
  readonly toleranceMs?: number
  /**
   * Remembers the id and returns whether it was received before. Called after the signature is proved. Keep ids for
   * twice `toleranceMs`, in a store that all receivers share, such as `once.claim`.
   */
  readonly seen?: (id: string) => boolean | Promise<boolean>
  /** @default Date.now */
  readonly now?: () => number
}

/**
 * For `replayed`, answer 2xx and do nothing: a sender that received no reply sends the same id again. For all other
 * problems, answer 401.
 */
export type WebhookProblem = 'incomplete' | 'too_old' | 'too_new' | 'bad_signature' | 'replayed'

/** The result of the check. */
export type WebhookVerdict =
  | { readonly valid: true; readonly id: string; readonly sentAt: number }
  | { readonly valid: false; readonly problem: WebhookProblem }

export const verifyWebhookDefaults = { toleranceMs: 300_000 } as const

/** Checks that the sender of a webhook knows the secret, and that the request is recent and was not received before. */
export async function verifyWebhook(check: WebhookCheck): Promise<WebhookVerdict> {
  const { headers, body, secret, seen, now = Date.now } = check
  const { toleranceMs = verifyWebhookDefaults.toleranceMs } = check
  const id = headerOf(headers, 'webhook-id')
  const timestamp = headerOf(headers, 'webhook-timestamp')
  const signatures = headerOf(headers, 'webhook-signature')
  if (!id || !signatures || timestamp === undefined || !/^\d{1,12}$/.test(timestamp))
    return fault('incomplete')

  const secrets = typeof secret === 'string' ? [secret] : secret
  const isProved = secrets.some((one) => matches(signatures, signWebhook(one, id, timestamp, body)))
  if (!isProved) return fault('bad_signature')
  const sentAt = Number(timestamp) * 1_000
  const age = now() - sentAt
  // Negated, so that NaN counts as too old.
  if (!(age <= toleranceMs)) return fault('too_old')
  if (age < -toleranceMs) return fault('too_new')
  if (seen !== undefined && (await seen(id))) return fault('replayed')
  return { valid: true, id, sentAt }
}

/** Returns the value of `webhook-signature` for this body. A secret is base64 after `whsec_`, or plain text. */
export function signWebhook(
  secret: string,
  id: string,
  timestamp: string,
  body: string | Uint8Array,
): string {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`
}

function matches(presented: string, expected: string): boolean {
  const right = Buffer.from(expected)
  // The header may have several signatures, separated by spaces. Only ten are checked, so that a long header costs little.
  return presented
    .split(' ', 10)
    .map((one) => Buffer.from(one))
    .some((left) => left.length === right.length && timingSafeEqual(left, right))
}

function headerOf(headers: WebhookCheck['headers'], name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const value = headers[name] ?? Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1]
  // If the header exists twice, it is unknown which one was signed.
  return typeof value === 'string' ? value : undefined
}

function fault(problem: WebhookProblem): WebhookVerdict {
  return { valid: false, problem }
}
