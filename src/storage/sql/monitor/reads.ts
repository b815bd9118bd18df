import type {
  DeadCount,
  DecisionQuery,
  DecisionRecord,
  NotificationQuery,
  NotificationRecord,
  SubjectName,
  SubjectQuery,
  SubjectRecord,
} from '../../../monitor/monitor-store.ts'
import { type Columns, columns, type FieldTypes } from '../columns.ts'
import type { Dialect } from '../dialect.ts'
import { readAll } from '../operations.ts'
import type { Operation } from '../procedure.ts'
import { statement } from '../statement.ts'

/**
 * Reads what the monitor decided and sent. A list of one subject names that subject's index: without statistics an
 * engine may walk through all ids instead.
 */
export type Whole = number | string

/** The columns that name a subject. */
export const subjectName: FieldTypes<SubjectName> = {
  ...{ subject: 'text', source: 'text', group: ['text', 'time_slot'], name: ['text', 'venue_id'] },
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

export const decision: Columns<DecisionRecord> = columns<DecisionRecord>({
  ...{ id: 'text', ...subjectName, taskId: 'text', reason: 'text', fromHash: 'text | null', toHash: 'text' },
  ...{
    fromText: 'text | null',
    toText: 'text',
    eventId: 'text | null',
    observedAt: 'integer',
    verdicts: 'text',
  },
  decidedAt: 'integer',
})

export const listDecisions: Operation<[string, DecisionQuery], readonly DecisionRecord[]> = readAll(
  'list decisions',
  (namespace: string, { subject, reason, before, limit }: DecisionQuery) => {
    const filters = { namespace, reason, before, limit }
    return subject === undefined ? selectDecisions(filters) : selectDecisionsOf({ ...filters, subject })
  },
  decision.decode,
)

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
/** The unsent notifications, of which there are few. */
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

export const notification: Columns<NotificationRecord> = columns<NotificationRecord>({
  ...{ id: 'text', subscriptionId: 'text', channel: 'text', ...subjectName, decisionId: 'text | null' },
  ...{ eventId: 'text | null', kind: 'text', from: ['text | null', 'from_state'], to: ['text', 'to_state'] },
  ...{ stateHash: 'text', windowMs: 'integer', maxAttempts: 'integer', status: 'text', attempt: 'integer' },
  ...{ dueAt: 'integer', createdAt: 'integer', finishedAt: 'integer | null', error: 'text | null' },
  ...{ possibleRepeat: 'boolean', digestId: 'text | null' },
})

export const listNotifications: Operation<[string, NotificationQuery], readonly NotificationRecord[]> =
  readAll(
    'list notifications',
    (namespace: string, { subject, status, ids, ...query }: NotificationQuery) => {
      const filters = { namespace, ...query }
      if (ids !== undefined) return selectThese({ ...filters, ids, subject, status })
      if (subject !== undefined) return selectNotificationsOf({ ...filters, subject, status })
      if (status !== undefined && status !== 'sent') return selectUnsent({ ...filters, unsent: status })
      return selectNotifications({ ...filters, status })
    },
    notification.decode,
  )

const selectDead = statement(
  'monitor_dead',
  { namespace: 'text' },
  () => `
SELECT subscription_id, count(*) AS count, min(finished_at) AS since FROM @monitor_notification
WHERE namespace = :namespace AND status = 'dead' GROUP BY subscription_id`,
)

const dead = columns<DeadCount>({ subscriptionId: 'text', count: 'integer', since: 'integer' })

export const countDead: Operation<[string], readonly DeadCount[]> = readAll(
  'count dead notifications',
  (namespace: string) => selectDead({ namespace }),
  dead.decode,
)

const subjects = (d: Dialect, where: string) => `
SELECT ${subject.names}
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
/** Within one source, a page can start at a time slot of that source. */
const selectSubjectsWithin = statement(
  'monitor_subjects_within',
  { ...subjectFilters, group: 'text', name: 'text' },
  (d) => subjects(d, `AND ${d.isAfter(['time_slot', ':group'], ['venue_id', ':name'])}`),
)

/** The state of a subject, without its name. */
export const subjectState: FieldTypes<Omit<SubjectRecord, keyof SubjectName>> = {
  ...{ version: 'integer', state: 'text', stateHash: 'text', observedAt: 'integer', changedAt: 'integer' },
}

const subject = columns<SubjectRecord>({ ...subjectName, ...subjectState })

export const listSubjects: Operation<[string, SubjectQuery], readonly SubjectRecord[]> = readAll(
  'list subjects',
  (namespace: string, { source, search, after, limit }: SubjectQuery) => {
    const filters = { namespace, source, search, limit }
    if (after === undefined) return selectSubjects(filters)
    const { group, name } = after
    if (after.source === source) return selectSubjectsWithin({ ...filters, group, name })
    return selectSubjectsAfter({ ...filters, from: after.source, group, name })
  },
  subject.decode,
)
