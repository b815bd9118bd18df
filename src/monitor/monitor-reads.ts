import { SignalboxError } from '../core/errors.ts'
import { oneOf, onlyKeys, text, whole } from '../core/options.ts'
import type {
  DecisionQuery,
  NotificationQuery,
  NotificationStatus,
  SubjectName,
  SubjectQuery,
} from './monitor-store.ts'
import { type Reason, reasons } from './report/decide.ts'
import { nameSubject } from './report/report.ts'

/** One venue of one source, in one time slot. */
export interface SubjectPlace {
  readonly source: string
  readonly timeSlot: string
  readonly venueId: string
}

interface PageOptions {
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** Where the page before ended, as it said. */
  readonly cursor?: string | null | undefined
}

/** All of a place or nothing of it. */
export interface ListDecisionsOptions extends Partial<SubjectPlace>, PageOptions {
  readonly reason?: Reason | undefined
}

export interface ListNotificationsOptions extends Partial<SubjectPlace>, PageOptions {
  readonly subscriptionId?: string | undefined
  readonly status?: NotificationStatus | undefined
}

export interface ListSubjectsOptions extends PageOptions {
  readonly source?: string | undefined
  /** Only venues that contain this text. */
  readonly search?: string | undefined
}

export interface ExplainOptions extends SubjectPlace, PageOptions {}

export const notificationStatuses: readonly NotificationStatus[] = [
  'pending',
  'sending',
  'sent',
  'dead',
  'held',
  'cancelled',
]

const placeKeys = ['source', 'timeSlot', 'venueId']
const pageKeys = ['limit', 'cursor']

export function resolvePlace(name: string, options: SubjectPlace, more: readonly string[] = []): SubjectName {
  onlyKeys(name, options, [...placeKeys, ...more])
  return nameSubject({
    source: text(`${name}.source`, options.source),
    timeSlot: text(`${name}.timeSlot`, options.timeSlot),
    venueId: text(`${name}.venueId`, options.venueId),
  })
}

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

function resolveSubject(name: string, options: Partial<SubjectPlace>): { subject?: string } {
  const { source, timeSlot, venueId } = options
  if (source === undefined && timeSlot === undefined && venueId === undefined) return {}
  if (source === undefined || timeSlot === undefined || venueId === undefined) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} is asked for one venue by source, timeSlot and venueId together, or for all by none of them.`,
    )
  }
  return { subject: resolvePlace(name, { source, timeSlot, venueId }).subject }
}

/** The last subject of a page, as text that can stand in an address as it is. */
export function encodeCursor({ source, timeSlot, venueId }: SubjectPlace): string {
  return Buffer.from(JSON.stringify([source, timeSlot, venueId])).toString('base64url')
}

function decodeCursor(cursor: unknown): SubjectPlace {
  try {
    const [source, timeSlot, venueId] = JSON.parse(Buffer.from(String(cursor), 'base64url').toString())
    const { subject, ...place } = resolvePlace('subjects.cursor', { source, timeSlot, venueId })
    return place
  } catch {
    throw new SignalboxError('invalid_argument', 'subjects.cursor is not one that a page ended with.')
  }
}
