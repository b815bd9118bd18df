import type {
  DeadCount,
  DecisionQuery,
  DecisionRecord,
  Known,
  KnownAsk,
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
  decodeKnownSubject,
  decodeNotification,
  decodeSubject,
  decodeWindow,
  type KnownSubjectRow,
  type NotificationRow,
  type SubjectRow,
  type WindowRow,
} from '../../sql/monitor-row.ts'
import { type Call, commit, type Statement } from '../connection/calls.ts'
import type { Store } from '../engine-store.ts'
import { now, setNow } from './monitor-rows.ts'

/** Reads that all see the same state of the store, and one clock. */
export async function snapshot(call: Call, reads: readonly Statement[]): Promise<readonly unknown[]> {
  const answers = await call.packet([
    ['SET TRANSACTION ISOLATION LEVEL REPEATABLE READ', []],
    ['START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY', []],
    setNow,
    ...reads,
    commit,
  ])
  return answers.slice(3, -1)
}

/** MonitorStore.known. */
export function readKnown(
  { calls, tables, namespace }: Store,
  { subjects, throttles }: KnownAsk,
): Promise<Known> {
  const { rules, subject, window, notification } = tables.monitor
  const keys = subjects.length === 0 ? [''] : subjects
  return calls.run('read what is known of subjects', async (call) => {
    const [[at], found, windows, counts] = (await snapshot(call, [
      [`SELECT ${now} AS now, (SELECT revision FROM ${rules} WHERE namespace = ?) AS revision`, [namespace]],
      [
        `SELECT subject, version, state, state_hash, observed_at, changed_at, memory
          FROM ${subject} WHERE namespace = ? AND subject IN (?)`,
        [namespace, keys],
      ],
      [
        `SELECT subject, subscription_id, state_hash, status, notification_id, notified_at, ends_at
          FROM ${window} WHERE namespace = ? AND subject IN (?)`,
        [namespace, keys],
      ],
      encodeCounts(notification, namespace, throttles),
    ])) as [
      { now: number; revision: number | null }[],
      KnownSubjectRow[],
      WindowRow[],
      { nr: number; count: number }[],
    ]
    const windowsOf = Map.groupBy(windows, (row) => row.subject)
    const rowOf = new Map(found.map((row) => [row.subject, row]))
    return {
      now: Number(at!.now),
      revision: Number(at!.revision ?? 0),
      subjects: subjects.map((key) => {
        const row = rowOf.get(key)
        return row && decodeKnownSubject(row, (windowsOf.get(key) ?? []).map(decodeWindow))
      }),
      counts: throttles.map((_, index) => Number(counts.find(({ nr }) => nr === index)?.count ?? 0)),
    }
  })
}

function encodeCounts(table: string, namespace: string, throttles: KnownAsk['throttles']): Statement {
  if (throttles.length === 0) return ['DO 0', []]
  const one = `SELECT ? AS nr, COUNT(*) AS count FROM ${table} FORCE INDEX (monitor_notification_subscription)
    WHERE namespace = ? AND subscription_id = ? AND created_at > ${now} - ?`
  return [
    throttles.map(() => one).join('\nUNION ALL '),
    throttles.flatMap(({ subscriptionId, perMs }, nr) => [nr, namespace, subscriptionId, perMs]),
  ]
}

export function listDecisions(
  store: Store,
  { subject, reason, before, limit }: DecisionQuery,
): Promise<readonly DecisionRecord[]> {
  const conditions: Statement[] = []
  if (subject !== undefined) conditions.push(['subject = ?', [subject]])
  if (reason !== undefined) conditions.push(['reason = ?', [reason]])
  if (before !== undefined) conditions.push(['id < ?', [before]])
  return page<DecisionRow, DecisionRecord>(store, decodeDecision, conditions, {
    doing: 'list decisions',
    table: store.tables.monitor.decision,
    order: 'id DESC',
    limit,
  })
}

export async function listNotifications(
  store: Store,
  { subject, subscriptionId, status, ids, before, limit }: NotificationQuery,
): Promise<readonly NotificationRecord[]> {
  if (ids?.length === 0) return []
  const conditions: Statement[] = []
  if (subject !== undefined) conditions.push(['subject = ?', [subject]])
  if (subscriptionId !== undefined) conditions.push(['subscription_id = ?', [subscriptionId]])
  if (status !== undefined) conditions.push(['status = ?', [status]])
  if (ids !== undefined) conditions.push(['id IN (?)', [ids]])
  if (before !== undefined) conditions.push(['id < ?', [before]])
  return page<NotificationRow, NotificationRecord>(store, decodeNotification, conditions, {
    doing: 'list notifications',
    table: store.tables.monitor.notification,
    order: 'id DESC',
    limit,
  })
}

export function countDead({ calls, tables, namespace }: Store): Promise<readonly DeadCount[]> {
  return calls.run('count dead notifications', async (call) => {
    const rows = await call.rows<DeadCountRow>(
      `SELECT subscription_id, COUNT(*) AS count, MIN(finished_at) AS since FROM ${tables.monitor.notification}
        WHERE namespace = ? AND status = 'dead' GROUP BY subscription_id`,
      [namespace],
    )
    return rows.map(decodeDeadCount)
  })
}

export function listSubjects(
  store: Store,
  { source, search, after, limit }: SubjectQuery,
): Promise<readonly SubjectRecord[]> {
  const conditions: Statement[] = []
  if (source !== undefined) conditions.push(['source = ?', [source]])
  if (search !== undefined) conditions.push(['LOCATE(?, venue_id) > 0', [search]])
  if (after !== undefined) {
    const { source: from, group, name } = after
    // The first alone tells where in the index to begin.
    conditions.push(['source >= ?', [from]])
    conditions.push([
      '(source > ? OR time_slot > ? OR (time_slot = ? AND venue_id > ?))',
      [from, group, group, name],
    ])
  }
  return page<SubjectRow, SubjectRecord>(store, decodeSubject, conditions, {
    doing: 'list subjects',
    table: `${store.tables.monitor.subject} FORCE INDEX (monitor_subject_name)`,
    order: 'source, time_slot, venue_id',
    limit,
  })
}

interface Page {
  readonly doing: string
  readonly table: string
  readonly order: string
  readonly limit: number
}

function page<Row, Item>(
  { calls, namespace }: Store,
  decode: (row: Row) => Item,
  conditions: readonly Statement[],
  { doing, table, order, limit }: Page,
): Promise<readonly Item[]> {
  const where = ['namespace = ?', ...conditions.map(([text]) => text)].join(' AND ')
  const values = [namespace, ...conditions.flatMap(([, bound]) => bound), limit]
  return calls.run(doing, async (call) => {
    const rows = await call.rows<Row>(
      `SELECT * FROM ${table} WHERE ${where} ORDER BY ${order} LIMIT ?`,
      values,
    )
    return rows.map(decode)
  })
}
