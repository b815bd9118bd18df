import { parseJson } from '../../core/json.ts'
import type { SendVerdict } from '../channels/channel.ts'
import type { NotificationRecord, SendingEnd } from '../monitor-store.ts'
import { type ShownPlace, showPlace } from '../subject-forms.ts'
import type { Subscriber } from '../subscription-rules.ts'

/**
 * Decides how a notification continues after a try. Pure.
 *
 *     sent ─▶ sent      retry ─▶ retry … dead when no tries are left      refused ─▶ dead
 *     unknown, or begun by a sender that died: ambiguous ─▶ again, marked as a possible repeat ─▶ … dead
 *                                                       └─▶ held, if the subscription says so
 *     rate limit of the provider, or not begun after all: again, without using up a try
 */
export type TryOutcome =
  | SendVerdict
  /** No request was sent. */
  | { readonly kind: 'unbegun'; readonly reason: string }
  /** The provider accepted some of its requests; then this happened. */
  | { readonly kind: 'partly'; readonly reason: string; readonly penaltyMs: number | undefined }

export interface Tried {
  readonly record: Pick<NotificationRecord, 'id' | 'maxAttempts'>
  /** The number of tries, with this one. */
  readonly attempt: number
  readonly onAmbiguous: 'resend' | 'hold'
  readonly retryMs: number
  readonly digestId: string | null
}

/** The codes in a notification's error, which the next try reads. */
export const sendingCodes = { ambiguous: 'ambiguous', alone: 'refused_together' } as const

export function judgeTry(tried: Tried, outcome: TryOutcome): SendingEnd {
  const { record, attempt, onAmbiguous, retryMs, digestId } = tried
  const same = { id: record.id, digestId }
  const isLast = attempt >= record.maxAttempts
  if (outcome.kind === 'sent') return { ...same, outcome: 'sent', error: null }
  const error = encodeError(outcome.reason)
  const dead: SendingEnd = { ...same, outcome: 'dead', error }
  switch (outcome.kind) {
    case 'refused':
      // The provider may refuse only one notification of the digest, so each is tried alone before all of them die.
      if (digestId === null || isLast) return dead
      return { ...same, outcome: 'retry', error: encodeError(outcome.reason, sendingCodes.alone) }
    case 'unbegun':
      return { ...same, outcome: 'retry', free: true, error }
    case 'retry':
      if (outcome.penaltyMs !== undefined) return { ...same, outcome: 'retry', free: true, error }
      return isLast ? dead : { ...same, outcome: 'retry', afterMs: outcome.afterMs ?? retryMs, error }
    case 'unknown':
    case 'partly': {
      const ambiguous = { ...same, error: encodeError(outcome.reason, sendingCodes.ambiguous) }
      if (onAmbiguous === 'hold') return { ...ambiguous, outcome: 'held' }
      return isLast ? { ...ambiguous, outcome: 'dead' } : { ...ambiguous, outcome: 'retry', afterMs: retryMs }
    }
  }
}

/** Judges a notification whose sender died while sending. Undefined: send it again now. */
export function judgeAbandoned({ record, attempt, onAmbiguous, digestId }: Tried): SendingEnd | undefined {
  const error = encodeError('the sender ended while it sent this notification', sendingCodes.ambiguous)
  if (onAmbiguous === 'hold') return { id: record.id, digestId, outcome: 'held', error }
  return attempt >= record.maxAttempts ? { id: record.id, digestId, outcome: 'dead', error } : undefined
}

/** The end of a notification that can never be sent. */
export function deadEnd(id: string, reason: string): SendingEnd {
  return { id, outcome: 'dead', error: encodeError(reason), digestId: null }
}

/**
 * The notification waits until a process has the key. If a dead sender may have sent it, the code stays `ambiguous`.
 */
export function sealedEnd({ id, status, digestId }: NotificationRecord, reason: string): SendingEnd {
  const code = status === 'sending' ? sendingCodes.ambiguous : 'secret_sealed'
  return { id, outcome: 'retry', afterMs: sealedDelayMs, error: encodeError(reason, code), digestId }
}

/** The pause before a sealed channel is tried again. */
const sealedDelayMs = 10_000

/** The code in the stored error of the last failure. */
export function codeOf(error: string | null): string | undefined {
  const { code } = Object(error === null ? null : parseJson(error, null)) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}

function encodeError(message: string, code?: string): string {
  return JSON.stringify(code === undefined ? { message } : { message, code })
}

/** A notification that a sender did not deliver, for logs. It has no secret. */
export interface SendingTrouble extends ShownPlace {
  /** `dead`: no further try. `sealed`: it waits, because its channel is sealed with a key that this process lacks. */
  readonly kind: 'dead' | 'sealed'
  readonly notificationId: string
  readonly subscriptionId: string
  /** The subscription's name. */
  readonly subscription: string
  /** The type of channel. */
  readonly channel: string
  readonly reason: string
}

/** The report of an end for an operator; undefined: none. */
export function troubleOf(
  { outcome, error }: SendingEnd,
  notification: NotificationRecord,
  { name, stored }: Subscriber,
): SendingTrouble | undefined {
  const kind =
    outcome === 'dead' ? 'dead' : outcome === 'retry' && isWaitingForKey(stored) ? 'sealed' : undefined
  if (kind === undefined) return undefined
  const { id, subscriptionId } = notification
  return {
    ...{ kind, notificationId: id, subscriptionId, subscription: name, channel: stored.type },
    ...showPlace(notification),
    reason: messageOf(error),
  }
}

/** Whether its channel may open once this process has the key. */
export function isWaitingForKey({ problem }: Subscriber['stored']): boolean {
  return problem?.code === 'secret_sealed'
}

function messageOf(error: string | null): string {
  if (error === null) return 'no reason was given'
  return (JSON.parse(error) as { readonly message: string }).message
}

/** Counts of notifications and tries of one type of channel. */
export interface SendingCounts {
  /** Notifications that a provider accepted. */
  sent: number
  /** Failed tries that are followed by another. */
  retried: number
  dead: number
  /** Tries that may or may not have arrived. */
  ambiguous: number
  /** Kept for an operator, because they may have arrived. */
  held: number
  cancelled: number
  /** Notifications that shared a message with others. */
  digested: number
  /** How often a provider limited the rate of a robot. */
  penalties: number
}

/** Adds up the counts by type of channel. */
export class SendingTally {
  readonly #types = new Map<string, SendingCounts>()

  add(type: string, what: keyof SendingCounts, count = 1): void {
    const counts = this.#types.get(type) ?? zero()
    this.#types.set(type, counts)
    counts[what] += count
  }

  /** Counts how a try ended. A try that does not count, such as after a rate limit, is left out. */
  addEnd(type: string, { outcome, free, error }: SendingEnd): void {
    if (codeOf(error) === sendingCodes.ambiguous) this.add(type, 'ambiguous')
    if (!free) this.add(type, outcome === 'retry' ? 'retried' : outcome)
  }

  /** A copy of the present counts. */
  counts(): Readonly<Record<string, Readonly<SendingCounts>>> {
    return Object.fromEntries([...this.#types].map(([type, counts]) => [type, { ...counts }]))
  }
}

function zero(): SendingCounts {
  return { sent: 0, retried: 0, dead: 0, ambiguous: 0, held: 0, cancelled: 0, digested: 0, penalties: 0 }
}
