import type { NewSilence, NewSubscription, Rules } from '../../../monitor/monitor-store.ts'
import {
  decodeSilence,
  decodeSubscription,
  type SilenceRow,
  type SubscriptionRow,
} from '../../sql/monitor-row.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import { readRevision } from './monitor-report.ts'
import { cancelPending } from './monitor-sending.ts'

/** Subscriptions and silences. Every change of them raises the revision, in the same transaction. Asked of a reader. */
export function readRules(connection: Connection, namespace: string): Rules {
  const subscriptions = connection.all<SubscriptionRow>(
    'SELECT * FROM monitor_subscription WHERE namespace = ?1 ORDER BY id',
    namespace,
  )
  const silences = connection.all<SilenceRow>(
    'SELECT * FROM monitor_silence WHERE namespace = ?1 AND ends_at > ?2 ORDER BY id',
    namespace,
    readNow(connection),
  )
  return {
    revision: readRevision(connection, namespace),
    subscriptions: subscriptions.map(decodeSubscription),
    silences: silences.map(decodeSilence),
  }
}

export function subscribe(
  connection: Connection,
  namespace: string,
  { id, name, match, channel, options }: NewSubscription,
  now: number,
): void {
  connection.run(
    `INSERT OR REPLACE INTO monitor_subscription (namespace, id, name, match_on, channel, options, created_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
    ...[namespace, id, name, match, channel, options, now],
  )
  raiseRevision(connection, namespace)
}

export function rewriteChannel(
  connection: Connection,
  namespace: string,
  id: string,
  { from, to }: { readonly from: string; readonly to: string },
): boolean {
  const sql = 'UPDATE monitor_subscription SET channel = ?4 WHERE namespace = ?1 AND id = ?2 AND channel = ?3'
  return connection.run(sql, namespace, id, from, to) > 0
}

export function unsubscribe(connection: Connection, namespace: string, id: string, now: number): boolean {
  const sql = 'DELETE FROM monitor_subscription WHERE namespace = ?1 AND id = ?2'
  if (connection.run(sql, namespace, id) === 0) return false
  raiseRevision(connection, namespace)
  cancelPending(connection, namespace, id, now)
  return true
}

export function silence(
  connection: Connection,
  namespace: string,
  { id, match, comment, startsAt, forMs }: NewSilence,
  now: number,
): void {
  const from = startsAt ?? now
  connection.run(
    `INSERT OR REPLACE INTO monitor_silence (namespace, id, match_on, comment, starts_at, ends_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
    ...[namespace, id, match, comment, from, from + forMs],
  )
  raiseRevision(connection, namespace)
}

export function unsilence(connection: Connection, namespace: string, id: string): boolean {
  const sql = 'DELETE FROM monitor_silence WHERE namespace = ?1 AND id = ?2'
  if (connection.run(sql, namespace, id) === 0) return false
  raiseRevision(connection, namespace)
  return true
}

function raiseRevision(connection: Connection, namespace: string): void {
  connection.run(
    `INSERT INTO monitor_rules (namespace, revision) VALUES (?1, 1)
     ON CONFLICT DO UPDATE SET revision = revision + 1`,
    namespace,
  )
}
