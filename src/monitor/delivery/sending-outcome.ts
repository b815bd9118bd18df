import type { SendVerdict } from '../channels/channel.ts'
import type { NotificationRecord, SendingEnd } from '../monitor-store.ts'
import { type ShownPlace, showPlace } from '../subject-forms.ts'
import type { Subscriber } from '../subscription-rules.ts'

/**
 * What becomes of a notification after a try. Pure.
 *
 *     sent ─▶ sent      retry ─▶ retry … dead when no tries are left      refused ─▶ dead
 *     unknown, or found begun by a sender that died: ambiguous ─▶ again, marked as a possible repeat ─▶ … dead
 *                                                             └─▶ held, where that was chosen
 *     asked to be silent, or not begun after all: again, at no cost
 */
export type TryOutcome =
  | SendVerdict
  /** Nothing left here. */
  | { readonly kind: 'unbegun'; readonly reason: string }
  /** Some of its requests were taken, then this. */
  | { readonly kind: 'partly'; readonly reason: string; readonly penaltyMs: number | undefined }

export interface Tried {
  readonly record: Pick<NotificationRecord, 'id' | 'maxAttempts'>
  /** Counted with this one. */
  readonly attempt: number
  readonly onAmbiguous: 'resend' | 'hold'
  readonly retryMs: number
  readonly digestId: string | null
}

export interface Judged {
  readonly end: SendingEnd
  readonly counted: readonly (keyof SendingCounts)[]
}

/** The codes that a notification's error can have, for the next try to know. */
export const sendingCodes = { ambiguous: 'ambiguous', alone: 'refused_together' } as const

export function judgeTry(tried: Tried, outcome: TryOutcome): Judged {
  const { record, attempt, onAmbiguous, retryMs, digestId } = tried
  const same = { id: record.id, digestId }
  const isLast = attempt >= record.maxAttempts
  switch (outcome.kind) {
    case 'sent':
      return { end: { ...same, outcome: 'sent', error: null }, counted: ['sent'] }
    case 'refused': {
      // One of them may be what is not liked, so each is tried by itself before all of them die.
      if (digestId === null || isLast) return dead(same, outcome.reason)
      const error = encode(outcome.reason, sendingCodes.alone)
      return { end: { ...same, outcome: 'retry', afterMs: 0, error }, counted: ['retried'] }
    }
    case 'unbegun':
      return free(same, outcome.reason)
    case 'retry': {
      if (outcome.penaltyMs !== undefined) return free(same, outcome.reason)
      if (isLast) return dead(same, outcome.reason)
      const error = encode(outcome.reason)
      const afterMs = outcome.afterMs ?? retryMs
      return { end: { ...same, outcome: 'retry', afterMs, error }, counted: ['retried'] }
    }
    case 'unknown':
    case 'partly': {
      const error = encode(outcome.reason, sendingCodes.ambiguous)
      if (onAmbiguous === 'hold')
        return { end: { ...same, outcome: 'held', error }, counted: ['ambiguous', 'held'] }
      if (isLast) return { end: { ...same, outcome: 'dead', error }, counted: ['ambiguous', 'dead'] }
      const end = { ...same, outcome: 'retry', afterMs: retryMs, error } as const
      return { end, counted: ['ambiguous', 'retried'] }
    }
  }
}

/** It was begun by a sender that is gone. Undefined: it is to be sent again now. */
export function judgeAbandoned(tried: Tried): Judged | undefined {
  const { record, attempt, onAmbiguous, digestId } = tried
  const error = encode('the sender ended while it was being sent', sendingCodes.ambiguous)
  const same = { id: record.id, digestId, error }
  if (onAmbiguous === 'hold') return { end: { ...same, outcome: 'held' }, counted: ['ambiguous', 'held'] }
  if (attempt >= record.maxAttempts)
    return { end: { ...same, outcome: 'dead' }, counted: ['ambiguous', 'dead'] }
  return undefined
}

/** It cannot be sent at all. */
export function deadEnd(id: string, reason: string): SendingEnd {
  return { id, outcome: 'dead', error: encode(reason), digestId: null }
}

/** It waits until a process has the key. A sender that died may have sent it, so that stays known. */
export function sealedEnd({ id, status, digestId }: NotificationRecord, reason: string): SendingEnd {
  const code = status === 'sending' ? sendingCodes.ambiguous : 'secret_sealed'
  return { id, outcome: 'retry', afterMs: sealedDelayMs, error: encode(reason, code), digestId }
}

/** How long a notification waits before its channel is tried again. */
const sealedDelayMs = 10_000

/** The code of the last failure, as it was written down. */
export function codeOf(error: string | null): string | undefined {
  if (error === null) return undefined
  try {
    const { code } = JSON.parse(error) as { code?: unknown }
    return typeof code === 'string' ? code : undefined
  } catch {
    return undefined
  }
}

function dead(same: { id: string; digestId: string | null }, reason: string): Judged {
  return { end: { ...same, outcome: 'dead', error: encode(reason) }, counted: ['dead'] }
}

function free(same: { id: string; digestId: string | null }, reason: string): Judged {
  return { end: { ...same, outcome: 'retry', afterMs: 0, free: true, error: encode(reason) }, counted: [] }
}

function encode(message: string, code?: string): string {
  return JSON.stringify(code === undefined ? { message } : { message, code })
}

/** A notification that a sender did not deliver, for logs. It holds no secret. */
export interface SendingTrouble extends ShownPlace {
  /** `dead`: it was given up. `sealed`: it waits, because its channel is sealed with a key that is not here. */
  readonly kind: 'dead' | 'sealed'
  readonly notificationId: string
  readonly subscriptionId: string
  /** The subscription's name. */
  readonly subscription: string
  /** The type of channel. */
  readonly channel: string
  readonly reason: string
}

/** What an end means for an operator; undefined: nothing to say. */
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

/** Its channel may open once this process has the key. */
export function isWaitingForKey({ problem }: Subscriber['stored']): boolean {
  return problem?.code === 'secret_sealed'
}

function messageOf(error: string | null): string {
  if (error === null) return 'no reason was given'
  return (JSON.parse(error) as { readonly message: string }).message
}

/** What became of notifications, by the type of their channel. */
export interface SendingCounts {
  /** Notifications that a provider took. */
  sent: number
  /** Tries that failed and will be made again. */
  retried: number
  dead: number
  /** Tries that may or may not have arrived. */
  ambiguous: number
  /** Kept for an operator, because they may have arrived. */
  held: number
  cancelled: number
  /** Notifications that shared a message with others. */
  digested: number
  /** How often a provider asked a robot to be silent. */
  penalties: number
}

/** Adds up, by type. */
export class SendingTally {
  readonly #types = new Map<string, SendingCounts>()

  add(type: string, what: keyof SendingCounts, count = 1): void {
    const counts = this.#types.get(type) ?? zero()
    this.#types.set(type, counts)
    counts[what] += count
  }

  /** As they are now. */
  counts(): Readonly<Record<string, Readonly<SendingCounts>>> {
    return Object.fromEntries([...this.#types].map(([type, counts]) => [type, { ...counts }]))
  }
}

function zero(): SendingCounts {
  return { sent: 0, retried: 0, dead: 0, ambiguous: 0, held: 0, cancelled: 0, digested: 0, penalties: 0 }
}
