import { createHmac, timingSafeEqual } from 'node:crypto'

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
