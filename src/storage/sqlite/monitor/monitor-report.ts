import type {
  BatchAnswer,
  Known,
  KnownAsk,
  KnownSubject,
  NewDecision,
  NewNotification,
  ReportBatch,
  SubjectWrite,
  WindowRecord,
} from '../../../monitor/monitor-store.ts'
import { claimAsDone, findTaken } from '../../sql/guards/guard-claims.ts'
import { decodeWindow, type WindowRow } from '../../sql/monitor-row.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import { addJobs } from '../jobs/add.ts'

/** The space of guards that names changes that were told. */
export const eventSpace = 'monitor.event'

/** What is known of subjects, for a decision that `writeReport` checks against what it finds. Asked of a reader. */
export function readKnown(
  connection: Connection,
  namespace: string,
  { subjects, throttles }: KnownAsk,
): Known {
  const now = readNow(connection)
  const keys = JSON.stringify(subjects)
  const windows = readWindows(connection, namespace, keys)
  const known = new Map(
    connection
      .rows<[string, number, string, string, number, number, string]>(
        `SELECT s.subject, s.version, s.state, s.state_hash, s.observed_at, s.changed_at, s.memory
         FROM json_each(?2) AS j CROSS JOIN monitor_subject AS s ON s.namespace = ?1 AND s.subject = j.value`,
        namespace,
        keys,
      )
      .map(([subject, version, state, stateHash, observedAt, changedAt, memory]): [string, KnownSubject] => [
        subject,
        { version, state, stateHash, observedAt, changedAt, memory, windows: windows.get(subject) ?? [] },
      ]),
  )
  return {
    now,
    revision: readRevision(connection, namespace),
    subjects: subjects.map((subject) => known.get(subject)),
    counts: throttles.map((throttle) => countMade(connection, namespace, throttle, now)),
  }
}

/** How many notifications a subscription had lately. */
function countMade(
  connection: Connection,
  namespace: string,
  { subscriptionId, perMs }: KnownAsk['throttles'][number],
  now: number,
): number {
  return connection.get<{ made: number }>(
    `SELECT count(*) AS made FROM monitor_notification
     WHERE namespace = ?1 AND subscription_id = ?2 AND created_at > ?3`,
    ...[namespace, subscriptionId, now - perMs],
  )!.made
}

function readWindows(connection: Connection, namespace: string, keys: string): Map<string, WindowRecord[]> {
  const windows = new Map<string, WindowRecord[]>()
  const rows = connection.all<WindowRow>(
    `SELECT t.subject, t.subscription_id, t.state_hash, t.status, t.notification_id, t.notified_at, t.ends_at
     FROM json_each(?2) AS j CROSS JOIN monitor_window AS t ON t.namespace = ?1 AND t.subject = j.value`,
    namespace,
    keys,
  )
  for (const row of rows) {
    const ofSubject = windows.get(row.subject)
    if (ofSubject) ofSubject.push(decodeWindow(row))
    else windows.set(row.subject, [decodeWindow(row)])
  }
  return windows
}

export function readRevision(connection: Connection, namespace: string): number {
  const sql = 'SELECT revision FROM monitor_rules WHERE namespace = ?1'
  return connection.get<{ revision: number }>(sql, namespace)?.revision ?? 0
}

/**
 * Looks at everything before it writes anything: other writes may share the transaction, so nothing of this one could be
 * taken back alone. Nobody else writes in between.
 */
export function writeReport(
  connection: Connection,
  namespace: string,
  batch: ReportBatch,
  now: number,
): BatchAnswer {
  if (readRevision(connection, namespace) !== batch.revision) return { status: 'overtaken' }
  const rows = findCurrent(connection, namespace, batch.subjects)
  if (rows === undefined) return { status: 'overtaken' }
  const isUsedUp = (throttle: ReportBatch['throttles'][number]) =>
    countMade(connection, namespace, throttle, now) > throttle.most
  if (batch.throttles.some(isUsedUp)) return { status: 'overtaken' }
  const keys = batch.events.map(({ key }) => key)
  const events = runHere(connection, findTaken(namespace, eventSpace, keys), now)
  if (events.length > 0) return { status: 'duplicate', events }

  for (const [index, subject] of batch.subjects.entries())
    writeSubject(connection, namespace, rows[index] ?? null, subject, now)
  runHere(connection, claimAsDone(namespace, eventSpace, batch.events), now)
  for (const reservation of batch.reservations) reserve(connection, namespace, reservation)
  for (const decision of batch.decisions) insertDecision(connection, namespace, decision, now)
  for (const notification of batch.notifications) insertNotification(connection, namespace, notification, now)
  if (batch.jobs.length > 0) addJobs(connection, namespace, batch.jobs, now)
  return { status: 'written' }
}

/** The subjects' rows, null where there is none; undefined when one is not at the version that was decided on. */
function findCurrent(
  connection: Connection,
  namespace: string,
  subjects: readonly SubjectWrite[],
): readonly (number | null)[] | undefined {
  const rows = connection.rows<[number | null, number | null]>(
    `SELECT s.seen, s.version
     FROM json_each(?2) AS j LEFT JOIN monitor_subject AS s ON s.namespace = ?1 AND s.subject = j.value
     ORDER BY j.key`,
    namespace,
    JSON.stringify(subjects.map(({ subject }) => subject)),
  )
  const isCurrent = rows.every(([, version], index) => (version ?? 0) === subjects[index]!.version)
  return isCurrent ? rows.map(([seen]) => seen) : undefined
}

function writeSubject(
  connection: Connection,
  namespace: string,
  row: number | null,
  write: SubjectWrite,
  now: number,
): void {
  const { stateHash, observedAt, memory, state, changed } = write
  if (row === null) {
    const { subject, source, group, name } = write
    connection.run(
      `INSERT INTO monitor_subject (namespace, subject, source, time_slot, venue_id, version, observed_at, changed_at,
         state_hash, memory, state)
       VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10)`,
      ...[namespace, subject, source, group, name, observedAt, now, stateHash, memory, state!],
    )
  } else if (state === null && !changed) {
    connection.run(
      `UPDATE monitor_subject SET version = version + 1, observed_at = ?2, state_hash = ?3, memory = ?4
       WHERE seen = ?1`,
      ...[row, observedAt, stateHash, memory],
    )
  } else {
    connection.run(
      `UPDATE monitor_subject
       SET version = version + 1, observed_at = ?2, state_hash = ?3, memory = ?4, state = coalesce(?5, state),
         changed_at = CASE ?6 WHEN 1 THEN ?7 ELSE changed_at END
       WHERE seen = ?1`,
      ...[row, observedAt, stateHash, memory, state, Number(changed), now],
    )
  }
}

/** What was told of this state before stays noted; its window ends. */
export function reserve(
  connection: Connection,
  namespace: string,
  { subject, subscriptionId, stateHash, notificationId }: ReportBatch['reservations'][number],
): void {
  connection.run(
    `INSERT INTO monitor_window (namespace, subject, subscription_id, state_hash, status, notification_id)
     VALUES (?1, ?2, ?3, ?4, 'pending', ?5)
     ON CONFLICT DO UPDATE SET status = 'pending', notification_id = excluded.notification_id, ends_at = NULL`,
    ...[namespace, subject, subscriptionId, stateHash, notificationId],
  )
}

function insertDecision(connection: Connection, namespace: string, decision: NewDecision, now: number): void {
  const { id, subject, source, group, name, taskId, reason, observedAt, verdicts } = decision
  const { fromHash, toHash, fromText, toText, eventId } = decision
  connection.run(
    `INSERT INTO monitor_decision (namespace, id, subject, source, time_slot, venue_id, task_id, reason, from_hash,
       to_hash, from_text, to_text, event_id, observed_at, verdicts, decided_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[namespace, id, subject, source, group, name, taskId, reason, fromHash],
    ...[toHash, fromText, toText, eventId, observedAt, verdicts, now],
  )
}

function insertNotification(
  connection: Connection,
  namespace: string,
  notification: NewNotification,
  now: number,
): void {
  const { id, subscriptionId, channel, subject, source, group, name, decisionId } = notification
  const { eventId, kind, from, to, stateHash, windowMs, maxAttempts, delayMs } = notification
  connection.run(
    `INSERT INTO monitor_notification (namespace, id, subscription_id, channel, subject, source, time_slot, venue_id,
       decision_id, event_id, kind, from_state, to_state, state_hash, window_ms, max_attempts, due_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[namespace, id, subscriptionId, channel, subject, source, group, name],
    ...[decisionId, eventId, kind, from, to, stateHash, windowMs, maxAttempts, now + delayMs, now],
  )
}
