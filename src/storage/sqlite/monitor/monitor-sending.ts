import type { NewJob } from '../../../jobs/index.ts'
import type {
  ChannelRef,
  DueAnswer,
  SendingEnd,
  SendingStep,
  TakeAsk,
  Taken,
} from '../../../monitor/monitor-store.ts'
import { forgetKey } from '../../sql/guards/guards.ts'
import { decodeNotification, type NotificationRow } from '../../sql/monitor-row.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import { addJobs } from '../jobs/add.ts'
import { eventSpace, reserve } from './monitor-report.ts'

/** Notifications on their way: a channel has one sender at a time, and who has it says what became of them. */
interface ChannelRow {
  readonly token: string | null
  readonly lease_ends_at: number | null
  readonly wanted: number
  readonly state: string | null
}

export function takeChannel(
  connection: Connection,
  namespace: string,
  { channel, token, leaseMs }: TakeAsk,
  now: number,
): Taken {
  const row = findChannel(connection, namespace, channel)
  if (row && row.token !== null && row.token !== token && row.lease_ends_at! > now) {
    const sql = 'UPDATE monitor_channel SET wanted = 1 WHERE namespace = ?1 AND channel = ?2'
    if (row.wanted === 0) connection.run(sql, namespace, channel)
    return { taken: false }
  }
  connection.run(
    `INSERT INTO monitor_channel (namespace, channel, token, lease_ends_at) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT DO UPDATE SET token = excluded.token, lease_ends_at = excluded.lease_ends_at, wanted = 0`,
    ...[namespace, channel, token, now + leaseMs],
  )
  return { taken: true, now, state: row?.state ?? null }
}

/** Asked of a reader: what comes of it is checked by `proceed`. */
export function readDue(
  connection: Connection,
  namespace: string,
  ref: ChannelRef,
  limit: number,
): DueAnswer | undefined {
  const now = readNow(connection)
  if (!findHeld(connection, namespace, ref, now)) return undefined
  const items = connection.all<NotificationRow>(
    `SELECT * FROM monitor_notification AS n INDEXED BY monitor_notification_line
     WHERE namespace = ?1 AND channel = ?2 AND finished_at IS NULL AND due_at <= ?3
       AND NOT EXISTS (
         SELECT 1 FROM monitor_notification AS before INDEXED BY monitor_notification_first
         WHERE before.namespace = ?1 AND before.channel = ?2 AND before.subject = n.subject
           AND before.id < n.id AND before.finished_at IS NULL)
     ORDER BY id LIMIT ?4 + 0`,
    ...[namespace, ref.channel, now, limit],
  )
  const { at } = connection.get<{ at: number | null }>(
    `SELECT min(due_at) AS at FROM monitor_notification INDEXED BY monitor_notification_due
     WHERE namespace = ?1 AND channel = ?2 AND finished_at IS NULL AND due_at > ?3`,
    ...[namespace, ref.channel, now],
  )!
  return { now, items: items.map(decodeNotification), nextAt: at }
}

export function proceed(
  connection: Connection,
  namespace: string,
  ref: ChannelRef,
  { leaseMs, state, ends, begin }: SendingStep,
  now: number,
): boolean {
  if (!findHeld(connection, namespace, ref, now)) return false
  connection.run(
    `UPDATE monitor_channel SET state = ?3, lease_ends_at = max(lease_ends_at, ?4)
     WHERE namespace = ?1 AND channel = ?2`,
    ...[namespace, ref.channel, state, now + leaseMs],
  )
  for (const end of ends) {
    const row = findUnsettled(connection, namespace, ref.channel, end.id)
    if (row) endSending(connection, namespace, row, end, now)
  }
  for (const { id, repeat } of begin) {
    connection.run(
      `UPDATE monitor_notification
       SET status = 'sending', attempt = attempt + 1, possible_repeat = max(possible_repeat, ?4)
       WHERE namespace = ?1 AND id = ?2 AND channel = ?3 AND finished_at IS NULL`,
      ...[namespace, id, ref.channel, Number(repeat)],
    )
  }
  return true
}

export function letGo(
  connection: Connection,
  namespace: string,
  ref: ChannelRef,
  now: number,
): 'released' | 'wanted' | 'lost' {
  const row = findHeld(connection, namespace, ref, now)
  if (!row) return 'lost'
  const change = row.wanted === 1 ? 'wanted = 0' : 'token = NULL, lease_ends_at = NULL'
  connection.run(
    `UPDATE monitor_channel SET ${change} WHERE namespace = ?1 AND channel = ?2`,
    namespace,
    ref.channel,
  )
  return row.wanted === 1 ? 'wanted' : 'released'
}

/** Cancels what a subscription that is gone has pending. */
export function cancelPending(
  connection: Connection,
  namespace: string,
  subscriptionId: string,
  now: number,
): void {
  // Of the unsettled, which are few: a subscription's own list is as long as its past.
  const rows = connection.all<UnsettledRow>(
    `SELECT * FROM monitor_notification INDEXED BY monitor_notification_line
     WHERE namespace = ?1 AND finished_at IS NULL AND subscription_id = ?2 AND status = 'pending'`,
    namespace,
    subscriptionId,
  )
  for (const row of rows) {
    settle(connection, row, 'cancelled', row.error, row.digest_id, now)
    freeWindow(connection, namespace, row)
  }
}

export function replay(
  connection: Connection,
  namespace: string,
  id: string,
  job: NewJob,
  now: number,
): boolean {
  const row = connection.get<UnsettledRow>(
    `UPDATE monitor_notification
     SET status = 'pending', attempt = 0, due_at = ?3, finished_at = NULL,
       possible_repeat = max(possible_repeat, status = 'held')
     WHERE namespace = ?1 AND id = ?2 AND status IN ('dead', 'held')
     RETURNING *`,
    ...[namespace, id, now],
  )
  if (!row) return false
  const { subject, subscription_id: subscriptionId, state_hash: stateHash } = row
  reserve(connection, namespace, { subject, subscriptionId, stateHash, notificationId: id })
  addJobs(connection, namespace, [job], now)
  return true
}

function endSending(
  connection: Connection,
  namespace: string,
  row: UnsettledRow,
  { outcome, afterMs = 0, free = false, error, digestId }: SendingEnd,
  now: number,
): void {
  if (outcome === 'retry') {
    connection.run(
      `UPDATE monitor_notification
       SET status = 'pending', due_at = ?2, attempt = attempt - ?3, error = ?4, digest_id = ?5
       WHERE made = ?1`,
      ...[row.made, now + afterMs, Number(free), error, digestId],
    )
    return
  }
  settle(connection, row, outcome, error, digestId, now)
  if (outcome === 'cancelled') freeWindow(connection, namespace, row)
  else if (outcome === 'dead') oweWindow(connection, namespace, row, now)
  else openWindow(connection, namespace, row, now)
}

function settle(
  connection: Connection,
  { made }: UnsettledRow,
  status: string,
  error: string | null,
  digestId: string | null,
  now: number,
): void {
  connection.run(
    `UPDATE monitor_notification SET status = ?2, finished_at = ?3, error = ?4, digest_id = ?5 WHERE made = ?1`,
    ...[made, status, now, error, digestId],
  )
}

const isOwedOfPast = `status = 'owed' AND state_hash IS NOT (
  SELECT s.state_hash FROM monitor_subject AS s WHERE s.namespace = ?1 AND s.subject = ?2)`

/** This is what was told last: of the same subject and subscription, what is over or owed of a past state is forgotten. */
function openWindow(connection: Connection, namespace: string, row: UnsettledRow, now: number): void {
  connection.run(
    `DELETE FROM monitor_window
     WHERE namespace = ?1 AND subject = ?2 AND subscription_id = ?3
       AND ((${isOwedOfPast}) OR (status = 'notified' AND (ends_at IS NULL OR ends_at <= ?4)))`,
    ...[namespace, row.subject, row.subscription_id, now],
  )
  connection.run(
    `INSERT OR REPLACE INTO monitor_window (namespace, subject, subscription_id, state_hash, notification_id, status,
       notified_at, ends_at)
     VALUES (?1, ?2, ?3, ?4, ?5, 'notified', ?6, ?7)`,
    ...reservation(namespace, row),
    now,
    now + row.window_ms,
  )
}

/** Nobody was told: the next report decides anew, and the change may be claimed again. Of past states nothing is owed. */
function oweWindow(connection: Connection, namespace: string, row: UnsettledRow, now: number): void {
  connection.run(
    `DELETE FROM monitor_window
     WHERE namespace = ?1 AND subject = ?2 AND subscription_id = ?3 AND notified_at IS NULL AND ${isOwedOfPast}`,
    ...[namespace, row.subject, row.subscription_id],
  )
  connection.run(
    `UPDATE monitor_window SET status = 'owed' WHERE ${isReservedBy}`,
    ...reservation(namespace, row),
  )
  if (row.event_id !== null) runHere(connection, forgetKey(namespace, eventSpace, row.event_id), now)
}

function freeWindow(connection: Connection, namespace: string, row: UnsettledRow): void {
  connection.run(`DELETE FROM monitor_window WHERE ${isReservedBy}`, ...reservation(namespace, row))
}

const isReservedBy = `namespace = ?1 AND subject = ?2 AND subscription_id = ?3 AND state_hash = ?4
  AND notification_id = ?5 AND status = 'pending'`

function reservation(
  namespace: string,
  row: UnsettledRow,
): [namespace: string, subject: string, subscription: string, state: string, notification: string] {
  return [namespace, row.subject, row.subscription_id, row.state_hash, row.id]
}

interface UnsettledRow extends NotificationRow {
  readonly made: number
  readonly window_ms: number
}

function findUnsettled(
  connection: Connection,
  namespace: string,
  channel: string,
  id: string,
): UnsettledRow | undefined {
  return connection.get<UnsettledRow>(
    `SELECT * FROM monitor_notification
     WHERE namespace = ?1 AND id = ?2 AND channel = ?3 AND finished_at IS NULL`,
    ...[namespace, id, channel],
  )
}

/** The channel, if it is this sender's and its lease is live. */
function findHeld(
  connection: Connection,
  namespace: string,
  { channel, token }: ChannelRef,
  now: number,
): ChannelRow | undefined {
  const row = findChannel(connection, namespace, channel)
  return row?.token === token && row.lease_ends_at! > now ? row : undefined
}

function findChannel(connection: Connection, namespace: string, channel: string): ChannelRow | undefined {
  return connection.get<ChannelRow>(
    `SELECT token, lease_ends_at, wanted, state FROM monitor_channel WHERE namespace = ?1 AND channel = ?2`,
    namespace,
    channel,
  )
}
