import { createHmac, timingSafeEqual } from 'node:crypto'
import { createHiding, judgeStatus } from './answers.ts'
import {
  allowFields,
  type Channel,
  type ChannelConfig,
  type ChannelType,
  identify,
  type Message,
  type MessageChange,
  type OutboundRequest,
  object,
  type Robot,
  readRobots,
  refuse,
  robotSecrets,
  type Through,
} from './channel.ts'
import { oneLine, shorten } from './paging.ts'

/**
 * A signed request to a program of yours, with the states themselves; `verifyWebhook` is its other side. `webhook-id` is
 * the same each time a message is sent, so a receiver that remembers ids takes every message once.
 */
export type WebhookChannel = Through<WebhookAddress> & {
  readonly type: 'webhook'
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

interface WebhookAddress {
  readonly url: string
  /** What requests are signed with. */
  readonly secret: string
}

const maxBytes = 262_144

function create(config: ChannelConfig): Channel {
  allowFields(config, ['headers'])
  const robots = readRobots(config, { secret: 'required' })
  const headers = readHeaders(config)
  const hide = createHiding(robots, Object.values(headers))
  for (const [at, { secret }] of robots.entries()) {
    const isEmpty = secret?.startsWith('whsec_') && Buffer.from(secret.slice(6), 'base64').length < 8
    if (isEmpty)
      refuse(
        robots.length === 1 ? 'channel.secret' : `channel.robots[${at}].secret`,
        'base64 of 8 bytes or more after whsec_',
      )
  }
  return Object.freeze({
    ...identify('webhook', robots),
    limits: { rate: null, burst: null, maxBytes, concurrency: 8 },
    compose: (message: Message, robot: Robot, now: number) => compose(message, robot, now, headers),
    judge: (reply) => judgeStatus(reply, hide, () => ({ kind: 'sent' })),
  } satisfies Channel)
}

// What HTTP or the signature decides.
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
    const isSound = typeof value === 'string' && /^[\x20-\x7e]{1,1024}$/.test(value)
    if (!isSound) refuse(`channel.headers.${name}`, 'text of 1 to 1024 visible ASCII characters')
    else read[name] = value
  }
  return Object.freeze(read)
}

function compose(
  message: Message,
  robot: Robot,
  now: number,
  headers: Readonly<Record<string, string>>,
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

type SentChange = Omit<MessageChange, 'line'> & { readonly line: string; readonly statesLeftOut?: true }

function pagesOf(message: Message, now: number): readonly (readonly SentChange[])[] {
  // A repeat has the same pages: a receiver takes each of them once, by its number.
  const frame = bodyOf({ ...message, possibleRepeat: false }, now, [], { part: 99_999, parts: 99_999 })
  const room = maxBytes - Buffer.byteLength(frame)
  let page: SentChange[] = []
  const pages = [page]
  let left = room
  for (const change of message.changes) {
    const sent = fitted(change, room)
    const bytes = bytesOf(sent)
    if (bytes > left && page.length > 0) {
      page = []
      pages.push(page)
      left = room
    }
    page.push(sent)
    left -= bytes
  }
  return pages
}

/** The change, without its states and with a shorter line where it would fill more than a request. */
function fitted(change: MessageChange, room: number): SentChange {
  if (bytesOf(change) <= room) return change
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
  // When it happened, and not when it is sent: the same each time it is sent.
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

/** Headers often carry a token of the receiver. */
export const webhook: ChannelType = { create, secrets: [...robotSecrets, 'headers'] }

/**
 * The signature of a webhook, as Standard Webhooks has it: HMAC-SHA-256 over `id.timestamp.body`, in the header
 * `webhook-signature` as `v1,<base64>`. A receiver checks it with `verifyWebhook` before it reads the body.
 */

/** What came in, and what it is to be checked against. */
export interface WebhookCheck {
  /** Of the request: as Node has them (names in lower case), or a `Headers`. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>> | Headers
  /** As it came, before it is parsed: JSON written again is another text. */
  readonly body: string | Uint8Array
  /** Several while one is replaced by another. */
  readonly secret: string | readonly string[]
  /** How far its time may be from ours, either way. @default 300_000 */
  readonly toleranceMs?: number
  /**
   * Whether this id came before; it is asked once the signature is proved, and remembers the id. Keep ids for twice
   * `toleranceMs`, in a store that all receivers share: `once.claim` does.
   */
  readonly seen?: (id: string) => boolean | Promise<boolean>
  /** @default Date.now */
  readonly now?: () => number
}

/**
 * `replayed` is no reason for an error: a sender that did not get our answer sends again, under the same id. Answer
 * 2xx and do nothing. All others: answer 401.
 */
export type WebhookProblem = 'incomplete' | 'too_old' | 'too_new' | 'bad_signature' | 'replayed'

/** What the check found. */
export type WebhookVerdict =
  | { readonly valid: true; readonly id: string; readonly sentAt: number }
  | { readonly valid: false; readonly problem: WebhookProblem }

export const verifyWebhookDefaults = { toleranceMs: 300_000 } as const

/** Whether the sender of a webhook knows the secret, it was sent recently, and it came for the first time. */
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
  // Written so that an age which is no number is too old.
  if (!(age <= toleranceMs)) return fault('too_old')
  if (age < -toleranceMs) return fault('too_new')
  if (seen !== undefined && (await seen(id))) return fault('replayed')
  return { valid: true, id, sentAt }
}

/** The value of `webhook-signature` for this body. A secret that begins with `whsec_` is base64 behind it. */
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
  // Several are allowed, apart by spaces; few, so that a header of 16 KB costs no more than one of its size.
  return presented
    .split(' ', 10)
    .map((one) => Buffer.from(one))
    .some((left) => left.length === right.length && timingSafeEqual(left, right))
}

function headerOf(headers: WebhookCheck['headers'], name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const value = headers[name] ?? Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1]
  // Twice the same header: it is unknown which one was signed.
  return typeof value === 'string' ? value : undefined
}

function fault(problem: WebhookProblem): WebhookVerdict {
  return { valid: false, problem }
}
