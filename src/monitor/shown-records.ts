import type {
  DecisionRecord,
  KnownSubject,
  NotificationRecord,
  NotificationStatus,
  SubjectRecord,
} from './monitor-store.ts'
import type { Reason } from './report/decide.ts'
import { type ShownPlace, showPlace } from './subject-forms.ts'
import type { RuleBook } from './subscription-rules.ts'

/** Records as answers show them: parsed, in words, without keys and secrets. */

export interface ShownNotification extends ShownPlace {
  readonly id: string
  readonly subscriptionId: string
  /** The subscription's name and where it goes; null: nobody is subscribed any more. */
  readonly subscription: string | null
  readonly channel: string | null
  /** 'change', 'flapping', 'reconcile'. */
  readonly kind: string
  readonly from: unknown
  readonly to: unknown
  readonly status: NotificationStatus
  readonly attempt: number
  readonly maxAttempts: number
  readonly dueAt: number
  readonly createdAt: number
  readonly finishedAt: number | null
  readonly error: { readonly message: string; readonly code?: string } | null
  /** It may have reached people before. */
  readonly possibleRepeat: boolean
  /** The message it shared with others. */
  readonly digestId: string | null
  readonly decisionId: string | null
  readonly eventId: string | null
}

export interface ShownDecision extends ShownPlace {
  readonly id: string
  readonly taskId: string
  readonly reason: Reason
  /** The states; `from` is null for a subject that was not known. */
  readonly from: unknown
  readonly to: unknown
  readonly eventId: string | null
  readonly observedAt: number
  readonly decidedAt: number
  /** What became of it for each subscription. */
  readonly verdicts: readonly ShownVerdict[]
}

export interface ShownVerdict {
  readonly subscriptionId: string
  readonly notified: boolean
  readonly reason: Reason
  readonly kind: string
  readonly notificationId: string | null
}

/** A decision with what became of its notifications. */
export interface ExplainedDecision extends Omit<ShownDecision, 'verdicts'> {
  readonly verdicts: readonly (ShownVerdict & { readonly notification: ShownNotification | null })[]
}

export interface ShownSubject extends ShownPlace {
  readonly state: unknown
  readonly observedAt: number
  readonly changedAt: number
}

/** A notification of one state of a subject to one subscription: sent, or on its way. */
export interface ShownWindow {
  readonly subscriptionId: string
  /** The subscription's name; null: it has ended. */
  readonly subscription: string | null
  /** The state that it is about. Left out when it is not known any more: its notification is older than `keepMs`. */
  readonly state?: unknown
  readonly isPresentState: boolean
  readonly status: 'pending' | 'notified' | 'owed'
  readonly notificationId: string
  /** When it was last notified; null: never yet. */
  readonly notifiedAt: number | null
  /** Until when the same state is not notified again; null: there is no window. */
  readonly endsAt: number | null
}

/** Why subscribers were notified of a subject, or not. */
export interface Explanation extends ShownPlace {
  /** Null: it was never reported. */
  readonly present: {
    readonly state: unknown
    readonly observedAt: number
    readonly changedAt: number
  } | null
  /** Who was notified what of it lately, or is about to be, and until when that is not notified again. */
  readonly windows: readonly ShownWindow[]
  /** Newest first. */
  readonly decisions: readonly ExplainedDecision[]
  readonly cursor: string | null
}

export function showNotification(record: NotificationRecord, { subscribers }: RuleBook): ShownNotification {
  const { subject, source, group, name, stateHash, windowMs, channel, from, to, error, ...rest } = record
  const subscriber = subscribers.find(({ id }) => id === record.subscriptionId)
  return {
    ...rest,
    ...showPlace({ source, group, name }),
    subscription: subscriber?.name ?? null,
    channel: subscriber?.stored.shown ?? null,
    from: from === null ? null : JSON.parse(from),
    to: JSON.parse(to),
    error: error === null ? null : JSON.parse(error),
  }
}

export function showDecision(record: DecisionRecord): ShownDecision {
  const { subject, source, group, name, fromHash, toHash, fromText, toText, reason, verdicts, ...rest } =
    record
  return {
    ...rest,
    ...showPlace({ source, group, name }),
    reason: reason as Reason,
    from: fromText === null ? null : decodeState(fromText),
    to: decodeState(toText),
    verdicts: JSON.parse(verdicts),
  }
}

export function showSubject({ state, observedAt, changedAt, ...place }: SubjectRecord): ShownSubject {
  return { ...showPlace(place), state: JSON.parse(state), observedAt, changedAt }
}

/** `notices` are the notifications of the windows: they know the states. */
export function showWindows(
  known: KnownSubject | undefined,
  notices: readonly NotificationRecord[],
  { subscribers }: RuleBook,
): Explanation['windows'] {
  if (known === undefined) return []
  const stateOf = new Map(notices.map(({ stateHash, to }) => [stateHash, to])).set(
    known.stateHash,
    known.state,
  )
  return known.windows.map(({ stateHash, ...window }) => {
    const state = stateOf.get(stateHash)
    return {
      ...window,
      subscription: subscribers.find(({ id }) => id === window.subscriptionId)?.name ?? null,
      ...(state === undefined ? {} : { state: JSON.parse(state) }),
      isPresentState: stateHash === known.stateHash,
    }
  })
}

/** A decision of an earlier version holds long states shortened, which is no JSON: that text is shown as it is. */
function decodeState(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
