import type {
  NewDecision,
  NewNotification,
  ReportBatch,
  SubjectWrite,
} from '../../../monitor/monitor-store.ts'
import { nowMs, repeated, sparse } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'

/** The statements on reports, and the values that go with them. */
export type ReportStatements = Record<
  'known' | 'queue' | 'throttles' | 'newSubjects' | 'subjects' | 'reserve' | 'decide' | 'notify',
  Statement
>

/** The statements for a schema, whose name comes quoted. */
export function reportStatements(s: string): ReportStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_monitor_${name}`, text })
  return {
    // The first row has what is known of all; each other one a subject, or a window of one. The limit and the offset keep
    // each subject a look-up, whatever the planner knows of the tables: with a list of subjects it would read all windows.
    known: named(
      'known',
      `
SELECT NULL AS subject, coalesce((SELECT revision FROM ${s}.monitor_rules WHERE namespace = $1), 0) AS version,
       coalesce((
         SELECT json_agg((
           SELECT count(*) FROM ${s}.monitor_notification n
           WHERE n.namespace = $1 AND n.subscription_id = t.id AND n.created_at > 0
             AND n.created_at > clock.now - t.per_ms
         ) ORDER BY t.nr)
         FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY t (id, per_ms, nr)), '[]')::text AS state,
       NULL AS state_hash, clock.now AS observed_at, NULL AS changed_at, NULL AS memory, NULL::json AS open_window
FROM (SELECT ${nowMs} AS now) clock
UNION ALL
SELECT k.subject, k.version, k.state, k.state_hash, k.observed_at, k.changed_at, k.memory, NULL
FROM unnest($2::text[]) g (subject)
CROSS JOIN LATERAL (
  SELECT * FROM ${s}.monitor_subject WHERE namespace = $1 AND subject = g.subject LIMIT 1
) k
UNION ALL
SELECT t.subject, NULL, NULL, NULL, NULL, NULL, NULL, row_to_json(t)
FROM unnest($2::text[]) g (subject)
CROSS JOIN LATERAL (SELECT * FROM ${s}.monitor_window WHERE namespace = $1 AND subject = g.subject OFFSET 0) t`,
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
    // Each in one order, so that two who write the same subjects wait for each other and never in a ring.
    newSubjects: named(
      'new_subjects',
      `
INSERT INTO ${s}.monitor_subject (namespace, subject, source, time_slot, venue_id, version, state, state_hash,
  observed_at, changed_at, memory)
SELECT $1, g.subject COLLATE "C" AS in_subject, coalesce(g.source, ($3::text[])[1]),
       coalesce(g.time_slot, ($4::text[])[1]), g.venue_id, 1, g.state, g.state_hash,
       coalesce(g.observed_at, ($8::bigint[])[1]), ${nowMs}, g.memory
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[])
  g (subject, source, time_slot, venue_id, state, state_hash, observed_at, memory)
ORDER BY in_subject
ON CONFLICT (namespace, subject) DO NOTHING`,
    ),
    // What is null of a subject is as it was: of most, all but when it was seen. Each is looked up by itself, as above.
    subjects: named(
      'subjects',
      `
UPDATE ${s}.monitor_subject k SET version = g.version + 1, state = coalesce(g.state, k.state),
  state_hash = coalesce(g.state_hash, k.state_hash), observed_at = coalesce(g.observed_at, ($6::bigint[])[1]),
  changed_at = CASE WHEN g.changed THEN ${nowMs} ELSE k.changed_at END, memory = coalesce(g.memory, k.memory)
FROM (
  SELECT g.*, found.place
  FROM (
    SELECT g.subject COLLATE "C" AS in_subject, g.* FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[],
      $6::bigint[], $7::boolean[], $8::text[])
      g (subject, version, state, state_hash, observed_at, changed, memory)
    ORDER BY in_subject
  ) g
  CROSS JOIN LATERAL (
    SELECT ctid AS place FROM ${s}.monitor_subject WHERE namespace = $1 AND subject = g.in_subject LIMIT 1
  ) found
) g
WHERE k.ctid = g.place AND k.version = g.version`,
    ),
    reserve: named(
      'reserve',
      `
INSERT INTO ${s}.monitor_window (namespace, subject, subscription_id, state_hash, status, notification_id)
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

export function newSubjectValues(namespace: string, subjects: readonly SubjectWrite[]): unknown[] {
  return [
    namespace,
    subjects.map(({ subject }) => subject),
    repeated(subjects.map(({ source }) => source)),
    repeated(subjects.map(({ group }) => group)),
    subjects.map(({ name }) => name),
    subjects.map(({ state }) => state),
    subjects.map(({ stateHash }) => stateHash),
    repeated(subjects.map(({ observedAt }) => observedAt)),
    subjects.map(({ memory }) => memory),
  ]
}

export function subjectValues(namespace: string, subjects: readonly SubjectWrite[]): unknown[] {
  return [
    namespace,
    subjects.map(({ subject }) => subject),
    subjects.map(({ version }) => version),
    sparse(subjects.map(({ state }) => state)),
    sparse(subjects.map(({ state, stateHash }) => (state === null ? null : stateHash))),
    repeated(subjects.map(({ observedAt }) => observedAt)),
    subjects.some(({ changed }) => changed) ? subjects.map(({ changed }) => changed) : [],
    sparse(subjects.map(({ memory, sameMemory }) => (sameMemory ? null : memory))),
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
    'group',
    'name',
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
    'group',
    'name',
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
