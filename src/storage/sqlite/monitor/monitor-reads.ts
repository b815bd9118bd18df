import type {
  DeadCount,
  DecisionQuery,
  DecisionRecord,
  NotificationQuery,
  NotificationRecord,
  SubjectQuery,
  SubjectRecord,
} from '../../../monitor/monitor-store.ts'
import {
  type DeadCountRow,
  type DecisionRow,
  decodeDeadCount,
  decodeDecision,
  decodeNotification,
  decodeSubject,
  type NotificationRow,
  type SubjectRow,
} from '../../sql/monitor-row.ts'
import type { Connection } from '../connection/connection.ts'

/**
 * Looking at what the monitor decided and sent. Each filter is in the statement only where it is asked for, and a
 * subject's own index is named: without statistics, SQLite would rather walk all ids below `before`.
 */
export function listDecisions(
  connection: Connection,
  namespace: string,
  { subject, reason, before, limit }: DecisionQuery,
): readonly DecisionRecord[] {
  const { where, values } = filter([
    ['namespace = ?', namespace],
    ['subject = ?', subject],
    ['reason = ?', reason],
    ['id < ?', before],
  ])
  const index = subject === undefined ? '' : 'INDEXED BY monitor_decision_subject'
  return connection
    .all<DecisionRow>(
      `SELECT * FROM monitor_decision ${index} WHERE ${where} ORDER BY id DESC LIMIT ?`,
      ...values,
      limit,
    )
    .map(decodeDecision)
}

export function listNotifications(
  connection: Connection,
  namespace: string,
  { subject, subscriptionId, status, ids, before, limit }: NotificationQuery,
): readonly NotificationRecord[] {
  const { where, values } = filter([
    ['namespace = ?', namespace],
    ['subject = ?', subject],
    ['subscription_id = ?', subscriptionId],
    // The second half says that the index of those that were not sent may serve.
    [status === 'sent' ? 'status = ?' : `status = ? AND status <> 'sent'`, status],
    ['id IN (SELECT value FROM json_each(?))', ids && JSON.stringify(ids)],
    ['id < ?', before],
  ])
  const index = subject === undefined ? '' : 'INDEXED BY monitor_notification_subject'
  return connection
    .all<NotificationRow>(
      `SELECT * FROM monitor_notification ${index} WHERE ${where} ORDER BY id DESC LIMIT ?`,
      ...values,
      limit,
    )
    .map(decodeNotification)
}

export function findNotification(
  connection: Connection,
  namespace: string,
  id: string,
): NotificationRecord | undefined {
  const sql = 'SELECT * FROM monitor_notification WHERE namespace = ?1 AND id = ?2'
  const row = connection.get<NotificationRow>(sql, namespace, id)
  return row && decodeNotification(row)
}

export function countDead(connection: Connection, namespace: string): readonly DeadCount[] {
  return connection
    .all<DeadCountRow>(
      `SELECT subscription_id, count(*) AS count, min(finished_at) AS since FROM monitor_notification
       WHERE namespace = ?1 AND status = 'dead' GROUP BY subscription_id`,
      namespace,
    )
    .map(decodeDeadCount)
}

export function listSubjects(
  connection: Connection,
  namespace: string,
  { source, search, after, limit }: SubjectQuery,
): readonly SubjectRecord[] {
  const { where, values } = filter([
    ['namespace = ?', namespace],
    ['source = ?', source],
    ['instr(venue_id, ?) > 0', search],
  ])
  // Within one source, the page begins at a time slot of it.
  const isWithin = source !== undefined && after?.source === source
  const columns = isWithin ? 'time_slot, venue_id' : 'source, time_slot, venue_id'
  const page = after ? [...(isWithin ? [] : [after.source]), after.group, after.name] : []
  const places = page.map(() => '?').join()
  return connection
    .all<SubjectRow>(
      `SELECT subject, source, time_slot, venue_id, version, state, state_hash, observed_at, changed_at
       FROM monitor_subject
       WHERE ${where} ${after ? `AND (${columns}) > (${places})` : ''}
       ORDER BY source, time_slot, venue_id LIMIT ?`,
      ...values,
      ...page,
      limit,
    )
    .map(decodeSubject)
}

function filter(conditions: readonly (readonly [condition: string, value: string | undefined])[]): {
  readonly where: string
  readonly values: readonly string[]
} {
  const asked = conditions.flatMap(([condition, value]) =>
    value === undefined ? [] : [{ condition, value }],
  )
  return {
    where: asked.map(({ condition }) => condition).join(' AND '),
    values: asked.map(({ value }) => value),
  }
}
