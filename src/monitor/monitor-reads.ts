import { invalidArgument } from '../core/errors.ts'
import { oneOf, onlyKeys, text, whole } from '../core/options.ts'
import type {
  DecisionQuery,
  NotificationQuery,
  NotificationStatus,
  SubjectName,
  SubjectQuery,
} from './monitor-store.ts'
import { type Reason, reasons } from './report/decide.ts'
import {
  type GivenPlace,
  placeKeys,
  resolveOptionalPlace,
  resolvePlace,
  type SubjectPlace,
} from './subject-forms.ts'

interface PageOptions {
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** Where the page before ended, as it said. */
  readonly cursor?: string | null | undefined
}

/** A whole place in either form, or nothing of it. */
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

/** The last subject of a page, as text that can stand in an address as it is. */
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
