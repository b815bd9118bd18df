import type {
  DeadCount,
  DecisionQuery,
  DecisionRecord,
  NotificationQuery,
  NotificationRecord,
  NotificationStatus,
  SubjectName,
  SubjectQuery,
  SubjectRecord,
} from '../../../monitor/monitor-store.ts'
import type { Dialect } from '../dialect.ts'
import { many, type Operation, operation } from '../procedure.ts'
import { statement } from '../statement.ts'

/**
 * Reading what the monitor decided and sent. A list of one subject is read by that subject's index, which is named: without
 * statistics, an engine may rather walk through all ids.
 */
export type Whole = number | string

export interface NameRow {
  readonly subject: string
  readonly source: string
  readonly time_slot: string
  readonly venue_id: string
}

function decodeName({ subject, source, time_slot: group, venue_id: name }: NameRow): SubjectName {
  return { subject, source, group, name }
}

export function decodeInstant(value: Whole | null): number | null {
  return value === null ? null : Number(value)
}

const decisions = (hint: string, where: string) => `
SELECT * FROM @monitor_decision ${hint}
WHERE namespace = :namespace ${where} {AND reason = :reason} {AND id < :before} ORDER BY id DESC LIMIT :limit`

const decisionFilters = {
  namespace: 'text',
  'reason?': 'text',
  'before?': 'text',
  limit: 'integer',
} as const
const selectDecisions = statement('monitor_decisions', decisionFilters, () => decisions('', ''))
const selectDecisionsOf = statement('monitor_decisions_of', { ...decisionFilters, subject: 'text' }, (d) =>
  decisions(d.byIndex('monitor_decision_subject'), 'AND subject = :subject'),
)

interface DecisionRow extends NameRow {
  readonly id: string
  readonly task_id: string
  readonly reason: string
  readonly from_hash: string | null
  readonly to_hash: string
  readonly from_text: string | null
  readonly to_text: string
  readonly event_id: string | null
  readonly observed_at: Whole
  readonly verdicts: string
  readonly decided_at: Whole
}

export const listDecisions: Operation<[string, DecisionQuery], readonly DecisionRecord[]> = operation({
  name: 'list decisions',
  isRead: true,
  *procedure(namespace: string, { subject, reason, before, limit }: DecisionQuery) {
    const filters = { namespace, reason, before, limit }
    const select =
      subject === undefined ? selectDecisions(filters) : selectDecisionsOf({ ...filters, subject })
    return (yield* many<DecisionRow>(select)).map(
      (row): DecisionRecord => ({
        id: row.id,
        ...decodeName(row),
        taskId: row.task_id,
        reason: row.reason,
        fromHash: row.from_hash,
        toHash: row.to_hash,
        fromText: row.from_text,
        toText: row.to_text,
        eventId: row.event_id,
        observedAt: Number(row.observed_at),
        verdicts: row.verdicts,
        decidedAt: Number(row.decided_at),
      }),
    )
  },
})

const notifications = (hint: string, where: string) => `
SELECT * FROM @monitor_notification ${hint}
WHERE namespace = :namespace ${where} {AND window_ms >= 0 AND subscription_id = :subscriptionId} {AND status = :status}
  {AND id < :before}
ORDER BY id DESC LIMIT :limit`

const notificationFilters = {
  namespace: 'text',
  'subscriptionId?': 'text',
  'status?': 'text',
  'before?': 'text',
  limit: 'integer',
} as const
const selectNotifications = statement('monitor_notifications', notificationFilters, () =>
  notifications('', ''),
)
const selectNotificationsOf = statement(
  'monitor_notifications_of',
  { ...notificationFilters, subject: 'text' },
  (d) => notifications(d.byIndex('monitor_notification_subject'), 'AND subject = :subject AND attempt >= 0'),
)
/** Of those that were not sent, which are few. */
const selectUnsent = statement(
  'monitor_notifications_unsent',
  { ...notificationFilters, unsent: 'text' },
  (d) => notifications(d.byIndex('monitor_notification_status'), `AND status = :unsent AND status <> 'sent'`),
)

const selectThese = statement(
  'monitor_notifications_by_id',
  { ...notificationFilters, 'subject?': 'text', ids: 'text[]' },
  (d) => `
SELECT n.* ${d.byKeys({
    ...{
      from: '@monitor_notification',
      alias: 'n',
      where: 'n.namespace = :namespace',
      key: 'n.id',
      keys: ':ids',
    },
  })} {AND n.subject = :subject} {AND n.subscription_id = :subscriptionId} {AND n.status = :status} {AND n.id < :before}
ORDER BY n.id DESC LIMIT :limit`,
)

export interface NotificationRow extends NameRow {
  readonly id: string
  readonly subscription_id: string
  readonly channel: string
  readonly decision_id: string | null
  readonly event_id: string | null
  readonly kind: string
  readonly from_state: string | null
  readonly to_state: string
  readonly state_hash: string
  readonly window_ms: Whole
  readonly max_attempts: Whole
  readonly status: string
  readonly attempt: Whole
  readonly due_at: Whole
  readonly created_at: Whole
  readonly finished_at: Whole | null
  readonly error: string | null
  readonly possible_repeat: boolean | number
  readonly digest_id: string | null
}

export function decodeNotification(row: NotificationRow): NotificationRecord {
  return {
    id: row.id,
    subscriptionId: row.subscription_id,
    channel: row.channel,
    ...decodeName(row),
    decisionId: row.decision_id,
    eventId: row.event_id,
    kind: row.kind,
    from: row.from_state,
    to: row.to_state,
    stateHash: row.state_hash,
    windowMs: Number(row.window_ms),
    maxAttempts: Number(row.max_attempts),
    status: row.status as NotificationStatus,
    attempt: Number(row.attempt),
    dueAt: Number(row.due_at),
    createdAt: Number(row.created_at),
    finishedAt: decodeInstant(row.finished_at),
    error: row.error,
    possibleRepeat: Boolean(row.possible_repeat),
    digestId: row.digest_id,
  }
}

export const listNotifications: Operation<[string, NotificationQuery], readonly NotificationRecord[]> =
  operation({
    name: 'list notifications',
    isRead: true,
    *procedure(namespace: string, { subject, status, ids, ...query }: NotificationQuery) {
      const filters = { namespace, ...query }
      if (ids !== undefined) {
        const rows = yield* many<NotificationRow>(selectThese({ namespace, ids, subject, status, ...query }))
        return rows.map(decodeNotification)
      }
      const select =
        subject !== undefined
          ? selectNotificationsOf({ ...filters, subject, status })
          : status !== undefined && status !== 'sent'
            ? selectUnsent({ ...filters, unsent: status })
            : selectNotifications({ ...filters, status })
      return (yield* many<NotificationRow>(select)).map(decodeNotification)
    },
  })

const selectDead = statement(
  'monitor_dead',
  { namespace: 'text' },
  () => `
SELECT subscription_id, count(*) AS count, min(finished_at) AS since FROM @monitor_notification
WHERE namespace = :namespace AND status = 'dead' GROUP BY subscription_id`,
)

export const countDead: Operation<[string], readonly DeadCount[]> = operation({
  name: 'count dead notifications',
  isRead: true,
  *procedure(namespace: string) {
    const rows = yield* many<{ subscription_id: string; count: Whole; since: Whole }>(
      selectDead({ namespace }),
    )
    return rows.map(({ subscription_id: subscriptionId, count, since }) => ({
      ...{ subscriptionId, count: Number(count), since: Number(since) },
    }))
  },
})

const subjects = (d: Dialect, where: string) => `
SELECT subject, source, time_slot, venue_id, version, state, state_hash, observed_at, changed_at
FROM @monitor_subject ${d.byIndex('monitor_subject_name')}
WHERE namespace = :namespace AND version > 0 {AND source = :source} {AND ${d.contains('venue_id', ':search')}} ${where}
ORDER BY source, time_slot, venue_id LIMIT :limit`

const subjectFilters = { namespace: 'text', 'source?': 'text', 'search?': 'text', limit: 'integer' } as const
const selectSubjects = statement('monitor_subjects', subjectFilters, (d) => subjects(d, ''))
const selectSubjectsAfter = statement(
  'monitor_subjects_after',
  { ...subjectFilters, from: 'text', group: 'text', name: 'text' },
  (d) => subjects(d, `AND ${d.isAfter(['source', ':from'], ['time_slot', ':group'], ['venue_id', ':name'])}`),
)
/** Within one source, the page begins at a time slot of it. */
const selectSubjectsWithin = statement(
  'monitor_subjects_within',
  { ...subjectFilters, group: 'text', name: 'text' },
  (d) => subjects(d, `AND ${d.isAfter(['time_slot', ':group'], ['venue_id', ':name'])}`),
)

export interface SubjectRow {
  readonly version: Whole
  readonly state: string
  readonly state_hash: string
  readonly observed_at: Whole
  readonly changed_at: Whole
}

export function decodeSubject(row: SubjectRow): Omit<SubjectRecord, keyof SubjectName> {
  return {
    version: Number(row.version),
    state: row.state,
    stateHash: row.state_hash,
    observedAt: Number(row.observed_at),
    changedAt: Number(row.changed_at),
  }
}

export const listSubjects: Operation<[string, SubjectQuery], readonly SubjectRecord[]> = operation({
  name: 'list subjects',
  isRead: true,
  *procedure(namespace: string, { source, search, after, limit }: SubjectQuery) {
    const filters = { namespace, source, search, limit }
    const select =
      after === undefined
        ? selectSubjects(filters)
        : after.source === source
          ? selectSubjectsWithin({ ...filters, group: after.group, name: after.name })
          : selectSubjectsAfter({ ...filters, from: after.source, group: after.group, name: after.name })
    const rows = yield* many<NameRow & SubjectRow>(select)
    return rows.map((row): SubjectRecord => ({ ...decodeName(row), ...decodeSubject(row) }))
  },
})
