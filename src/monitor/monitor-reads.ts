import { invalidArgument } from '../core/errors.ts'
import { parseJson } from '../core/json.ts'
import { oneOf, onlyKeys, text, whole } from '../core/options.ts'
import type {
  DeadCount,
  DecisionQuery,
  DecisionRecord,
  KnownSubject,
  NotificationQuery,
  NotificationRecord,
  NotificationStatus,
  SubjectName,
  SubjectQuery,
  SubjectRecord,
  WindowRecord,
} from './monitor-store.ts'
import { type Reason, reasons } from './report/decide.ts'
import {
  type GivenPlace,
  placeKeys,
  resolveOptionalPlace,
  resolvePlace,
  type ShownPlace,
  type SubjectPlace,
  showPlace,
} from './subject-forms.ts'
import type { RuleBook } from './subscription-rules.ts'

/** A notification without keys and secrets. */
export interface ShownNotification
  extends ShownPlace,
    Omit<
      NotificationRecord,
      keyof SubjectName | 'stateHash' | 'windowMs' | 'channel' | 'from' | 'to' | 'error'
    > {
  /** The subscription's name and channel; null: the subscription has ended. */
  readonly subscription: string | null
  readonly channel: string | null
  readonly from: unknown
  readonly to: unknown
  readonly error: { readonly message: string; readonly code?: string } | null
}

export interface ShownDecision
  extends ShownPlace,
    Pick<DecisionRecord, 'id' | 'taskId' | 'eventId' | 'observedAt' | 'decidedAt'> {
  readonly reason: Reason
  /** The states; `from` is null for a subject that was not known. */
  readonly from: unknown
  readonly to: unknown
  /** The verdict for each subscription. */
  readonly verdicts: readonly ShownVerdict[]
}

export interface ShownVerdict {
  readonly subscriptionId: string
  readonly notified: boolean
  readonly reason: Reason
  readonly kind: string
  readonly notificationId: string | null
}

/** A decision with its notifications. */
export interface ExplainedDecision extends Omit<ShownDecision, 'verdicts'> {
  readonly verdicts: readonly (ShownVerdict & { readonly notification: ShownNotification | null })[]
}

export interface ShownSubject extends ShownPlace {
  readonly state: unknown
  readonly observedAt: number
  readonly changedAt: number
}

/** A notification of one state of a subject to one subscription: sent, or on its way. */
export interface ShownWindow extends Omit<WindowRecord, 'stateHash'> {
  /** The subscription's name; null: the subscription has ended. */
  readonly subscription: string | null
  /** The notified state. Left out if the notification, which has the state, is older than `keepMs`. */
  readonly state?: unknown
  readonly isPresentState: boolean
}

/** Why subscribers were notified of a subject, or not. */
export interface Explanation extends ShownPlace {
  /** Null: the subject was never reported. */
  readonly present: Pick<ShownSubject, 'state' | 'observedAt' | 'changedAt'> | null
  /** The recent and pending notifications, and the time until which each is not repeated. */
  readonly windows: readonly ShownWindow[]
  /** Newest first. */
  readonly decisions: readonly ExplainedDecision[]
  readonly cursor: string | null
}

export function showNotification(record: NotificationRecord, { subscribers }: RuleBook): ShownNotification {
  const { subject, source, group, name, stateHash, windowMs, channel, from, to, error, ...rest } = record
  const subscriber = subscribers.get(record.subscriptionId)
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

/** `notices` are the notifications of the windows, which have the states. */
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
      subscription: subscribers.get(window.subscriptionId)?.name ?? null,
      ...(state === undefined ? {} : { state: JSON.parse(state) }),
      isPresentState: stateHash === known.stateHash,
    }
  })
}

/** An earlier version shortened long states, so their text is no JSON: it is shown as text. */
function decodeState(text: string): unknown {
  return parseJson(text, text)
}

/** The problems for an operator, by subscription. */
export interface MonitorProblems {
  /** Subscriptions with dead notifications. Ended subscriptions are not counted. */
  readonly dead: readonly DeadNotifications[]
  /** Subscriptions whose channel this process cannot open. Their notifications wait, or die if the seal is broken. */
  readonly unreadable: readonly UnreadableChannel[]
  /** The number of subscriptions whose secrets are stored in plain text. */
  readonly plain: number
}

export interface DeadNotifications extends DeadCount {
  /** The subscription's name. */
  readonly subscription: string
  /** The type of its channel. */
  readonly channel: string
}

export interface UnreadableChannel {
  readonly subscriptionId: string
  readonly subscription: string
  /** `secret_sealed`: another key opens it. `seal_broken`: no key opens it. */
  readonly code: string
  readonly message: string
}

export function findProblems({ subscribers }: RuleBook, counts: readonly DeadCount[]): MonitorProblems {
  const all = [...subscribers.values()]
  return {
    dead: counts.flatMap(({ subscriptionId, count, since }) => {
      const found = subscribers.get(subscriptionId)
      if (found === undefined) return []
      return [{ subscriptionId, subscription: found.name, channel: found.stored.type, count, since }]
    }),
    unreadable: all.flatMap(({ id, name, stored }) => {
      if (stored.secrets !== 'unreadable') return []
      const { code, message } = stored.problem!
      return [{ subscriptionId: id, subscription: name, code, message }]
    }),
    plain: all.filter(({ stored }) => stored.secrets === 'plain').length,
  }
}

interface PageOptions {
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | null | undefined
}

/** Filters by a complete subject in either form, or by no subject. */
export interface ListDecisionsOptions extends GivenPlace, PageOptions {
  readonly reason?: Reason | undefined
}

export interface ListNotificationsOptions extends GivenPlace, PageOptions {
  readonly subscriptionId?: string | undefined
  readonly status?: NotificationStatus | undefined
}

export interface ListSubjectsOptions extends PageOptions {
  readonly source?: string | undefined
  /** Only subjects whose name contains this text. */
  readonly search?: string | undefined
}

export type ExplainOptions = SubjectPlace & PageOptions

export const notificationStatuses: readonly NotificationStatus[] = [
  'pending',
  'sending',
  'sent',
  'dead',
  'held',
  'cancelled',
]

const pageKeys = ['limit', 'cursor']

export function resolveExplain(options: ExplainOptions): { subject: SubjectName; query: DecisionQuery } {
  const subject = resolvePlace('explain', options, pageKeys)
  return { subject, query: { subject: subject.subject, ...resolvePage('explain', options) } }
}

export function resolveListDecisions(options: ListDecisionsOptions): DecisionQuery {
  onlyKeys('decisions', options, [...placeKeys, ...pageKeys, 'reason'])
  const { reason } = options
  return {
    ...resolvePage('decisions', options),
    ...resolveSubject('decisions', options),
    ...(reason !== undefined && { reason: oneOf('decisions.reason', reason, reasons) }),
  }
}

export function resolveListNotifications(options: ListNotificationsOptions): NotificationQuery {
  onlyKeys('notifications', options, [...placeKeys, ...pageKeys, 'subscriptionId', 'status'])
  const { subscriptionId, status } = options
  return {
    ...resolvePage('notifications', options),
    ...resolveSubject('notifications', options),
    ...(subscriptionId !== undefined && {
      subscriptionId: text('notifications.subscriptionId', subscriptionId),
    }),
    ...(status !== undefined && { status: oneOf('notifications.status', status, notificationStatuses) }),
  }
}

export function resolveListSubjects(options: ListSubjectsOptions): SubjectQuery {
  onlyKeys('subjects', options, ['source', 'search', ...pageKeys])
  const { source, search, limit = 50, cursor } = options
  return {
    limit: whole('subjects.limit', limit, { min: 1, max: 500 }),
    ...(source !== undefined && { source: text('subjects.source', source) }),
    ...(search !== undefined && { search: text('subjects.search', search) }),
    ...(cursor !== undefined && cursor !== null && { after: decodeCursor(cursor) }),
  }
}

function resolvePage(name: string, { limit = 50, cursor }: PageOptions): { limit: number; before?: string } {
  return {
    limit: whole(`${name}.limit`, limit, { min: 1, max: 500 }),
    ...(cursor !== undefined && cursor !== null && { before: text(`${name}.cursor`, cursor) }),
  }
}

function resolveSubject(
  name: string,
  { source, subject, timeSlot, venueId }: GivenPlace,
): { subject?: string } {
  const place = resolveOptionalPlace(name, { source, subject, timeSlot, venueId })
  return place === undefined ? {} : { subject: place.subject }
}

/** Encodes the last subject of a page as text for a URL. */
export function encodeCursor({ source, group, name }: Omit<SubjectName, 'subject'>): string {
  return Buffer.from(JSON.stringify([source, group, name])).toString('base64url')
}

function decodeCursor(cursor: unknown): NonNullable<SubjectQuery['after']> {
  try {
    const [source, group, name] = JSON.parse(Buffer.from(String(cursor), 'base64url').toString())
    return {
      source: text('source', source),
      group: group === '' ? '' : text('group', group),
      name: text('name', name),
    }
  } catch {
    throw invalidArgument('subjects.cursor is not one that a page ended with.')
  }
}
