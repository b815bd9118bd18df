import type { NewDecision, NewNotification, ReportBatch, SubjectWrite } from '../../monitor/store.ts'
import { nowMs, repeated, sparse } from './columns.ts'
import type { Statement } from './connection.ts'

/** The statements on reports, and the values that go with them. */
export type ReportStatements = Record<
  'known' | 'queue' | 'throttles' | 'subjects' | 'reserve' | 'decide' | 'notify',
  Statement
>

/** The statements for a schema, whose name comes quoted. */
export function reportStatements(s: string): ReportStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_monitor_${name}`, text })
  return {
    // The first row has what is known of all. The limit keeps each a look-up, whatever the planner knows of the table.
    known: named(
      'known',
      `
SELECT NULL AS subject, json_build_object(
         'now', clock.now,
         'revision', coalesce((SELECT revision FROM ${s}.monitor_rules WHERE namespace = $1), 0),
         'counts', coalesce((
           SELECT json_agg((
             SELECT count(*) FROM ${s}.monitor_notification n
             WHERE n.namespace = $1 AND n.subscription_id = t.id AND n.created_at > 0
               AND n.created_at > clock.now - t.per_ms
           ) ORDER BY t.nr)
           FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY t (id, per_ms, nr)), '[]')) AS meta,
       NULL AS version, NULL AS state, NULL AS state_hash, NULL AS observed_at, NULL AS changed_at, NULL AS memory,
       NULL AS windows
FROM (SELECT ${nowMs} AS now) clock
UNION ALL
SELECT k.subject, NULL, k.version, k.state, k.state_hash, k.observed_at, k.changed_at, k.memory, (
         SELECT json_agg(row_to_json(t)) FROM ${s}.monitor_told t WHERE t.namespace = $1 AND t.subject = k.subject)
FROM unnest($2::text[]) g (subject)
CROSS JOIN LATERAL (
  SELECT * FROM ${s}.monitor_subject WHERE namespace = $1 AND subject = g.subject LIMIT 1
) k`,
    ),
    // Those who tell the same throttled subscriptions write one after the other, and the next statement sees it.
    queue: named(
      'queue',
      `
SELECT id FROM ${s}.monitor_subscription WHERE namespace = $1 AND id = ANY ($2::text[]) ORDER BY id FOR UPDATE`,
    ),
    throttles: named(
      'throttles',
      `
SELECT count(*)::int AS used_up FROM unnest($2::text[], $3::bigint[], $4::bigint[]) t (id, per_ms, most)
WHERE (
  SELECT count(*) FROM ${s}.monitor_notification n
  WHERE n.namespace = $1 AND n.subscription_id = t.id AND n.created_at > 0 AND n.created_at > ${nowMs} - t.per_ms
) > t.most`,
    ),
    // A new subject is inserted with version 1 and has no xmax; one that is known has been locked, which its xmax shows,
    // and gets a version above that. An empty state stands for the one it has, an instant of 0 likewise.
    subjects: named(
      'subjects',
      `
WITH written AS (
  INSERT INTO ${s}.monitor_subject AS k (namespace, subject, source, time_slot, venue_id, version, state, state_hash,
    observed_at, changed_at, memory)
  SELECT $1, g.subject COLLATE "C" AS in_subject, coalesce(g.source, ($3::text[])[1]),
         coalesce(g.time_slot, ($4::text[])[1]), g.venue_id, g.version + 1, coalesce(g.state, ''), g.state_hash,
         coalesce(g.observed_at, ($9::bigint[])[1]),
         CASE WHEN g.changed OR g.version = 0 THEN ${nowMs} ELSE 0 END, g.memory
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::bigint[],
    $10::boolean[], $11::text[])
    g (subject, source, time_slot, venue_id, version, state, state_hash, observed_at, changed, memory)
  ORDER BY in_subject
  ON CONFLICT (namespace, subject) DO UPDATE SET version = excluded.version,
    state = CASE WHEN excluded.state = '' THEN k.state ELSE excluded.state END, state_hash = excluded.state_hash,
    observed_at = excluded.observed_at,
    changed_at = CASE WHEN excluded.changed_at = 0 THEN k.changed_at ELSE excluded.changed_at END,
    memory = excluded.memory
  WHERE k.version = excluded.version - 1
  RETURNING k.version, k.xmax = 0 AS is_new
)
SELECT count(*)::int AS count FROM written WHERE is_new = (version = 1)`,
    ),
    reserve: named(
      'reserve',
      `
INSERT INTO ${s}.monitor_told (namespace, subject, subscription_id, state_hash, status, notification_id)
SELECT $1, g.subject COLLATE "C" AS in_subject, g.subscription_id COLLATE "C" AS in_subscription,
       g.state_hash COLLATE "C" AS in_hash, 'pending', g.notification_id
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) g (subject, subscription_id, state_hash, notification_id)
ORDER BY in_subject, in_subscription, in_hash
ON CONFLICT (namespace, subject, subscription_id, state_hash) DO UPDATE SET status = excluded.status,
  notification_id = excluded.notification_id, ends_at = NULL`,
    ),
    decide: named(
      'decide',
      `
INSERT INTO ${s}.monitor_decision (namespace, id, subject, source, time_slot, venue_id, task_id, reason, from_hash,
  to_hash, from_text, to_text, event_id, observed_at, verdicts, decided_at)
SELECT $1, g.*, clock.now
FROM (SELECT ${nowMs} AS now) clock,
  unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::text[], $13::text[], $14::bigint[], $15::text[]) g`,
    ),
    notify: named(
      'notify',
      `
INSERT INTO ${s}.monitor_notification (namespace, id, subscription_id, channel, subject, source, time_slot, venue_id,
  decision_id, event_id, kind, from_state, to_state, state_hash, window_ms, max_attempts, due_at, status, attempt,
  created_at, possible_repeat)
SELECT $1, g.id, g.subscription_id, g.channel, g.subject, g.source, g.time_slot, g.venue_id, g.decision_id, g.event_id,
       g.kind, g.from_state, g.to_state, g.state_hash, g.window_ms, g.max_attempts, clock.now + g.delay_ms, 'pending', 0,
       clock.now, false
FROM (SELECT ${nowMs} AS now) clock,
  unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
    $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::int[], $17::bigint[])
    g (id, subscription_id, channel, subject, source, time_slot, venue_id, decision_id, event_id, kind, from_state,
       to_state, state_hash, window_ms, max_attempts, delay_ms)`,
    ),
  }
}

export function subjectValues(namespace: string, subjects: readonly SubjectWrite[]): unknown[] {
  return [
    namespace,
    subjects.map(({ subject }) => subject),
    repeated(subjects.map(({ source }) => source)),
    repeated(subjects.map(({ timeSlot }) => timeSlot)),
    subjects.map(({ venueId }) => venueId),
    subjects.map(({ version }) => version),
    sparse(subjects.map(({ state }) => state)),
    subjects.map(({ stateHash }) => stateHash),
    repeated(subjects.map(({ observedAt }) => observedAt)),
    subjects.map(({ changed }) => changed),
    subjects.map(({ memory }) => memory),
  ]
}

export function reservationValues(namespace: string, reservations: ReportBatch['reservations']): unknown[] {
  return [
    namespace,
    reservations.map(({ subject }) => subject),
    reservations.map(({ subscriptionId }) => subscriptionId),
    reservations.map(({ stateHash }) => stateHash),
    reservations.map(({ notificationId }) => notificationId),
  ]
}

export function decisionValues(namespace: string, decisions: readonly NewDecision[]): unknown[] {
  const columns = [
    'id',
    'subject',
    'source',
    'timeSlot',
    'venueId',
    'taskId',
    'reason',
    'fromHash',
    'toHash',
    'fromText',
    'toText',
    'eventId',
    'observedAt',
    'verdicts',
  ] as const
  return [namespace, ...columns.map((column) => decisions.map((decision) => decision[column]))]
}

export function notificationValues(namespace: string, notifications: readonly NewNotification[]): unknown[] {
  const columns = [
    'id',
    'subscriptionId',
    'channel',
    'subject',
    'source',
    'timeSlot',
    'venueId',
    'decisionId',
    'eventId',
    'kind',
    'from',
    'to',
    'stateHash',
    'windowMs',
    'maxAttempts',
    'delayMs',
  ] as const
  return [namespace, ...columns.map((column) => notifications.map((notification) => notification[column]))]
}
