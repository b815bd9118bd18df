import { nowMs } from '../connection/columns.ts'

/**
 * The monitor. `monitor_subject` has the last state of each subject, with a version that every write raises; `monitor_window`
 * what each subscription was notified of, or is about to be; `monitor_decision` why; and `monitor_notification` what is to be
 * sent through a channel. One sender at a time has a channel, by its row in `monitor_channel`. `monitor_rules` counts the
 * changes of subscriptions and silences.
 *
 * Subjects are written again and again in columns that no index has, so their pages are left half empty: a new version of a
 * row is then written beside the old one, and no index changes.
 *
 * Plans are made once per connection, perhaps while a table is empty, when every index that begins with the namespace costs
 * the same. So an index that is not for finding single rows has a condition of its own, if need be one that always holds
 * (version > 0): a statement that means it repeats the condition, and no other statement reads all of a namespace by mistake.
 */
export function monitor(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  const subjectName = `
  subject ${text} NOT NULL,
  source ${text} NOT NULL,
  time_slot ${text} NOT NULL,
  venue_id ${text} NOT NULL`
  const isUnsettled = `status IN ('pending', 'sending')`
  return [
    `CREATE TABLE ${s}.monitor_rules (namespace ${text} PRIMARY KEY, revision bigint NOT NULL)`,
    `CREATE TABLE ${s}.monitor_subscription (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  name text NOT NULL,
  match_on text NOT NULL,
  channel text NOT NULL,
  options text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (namespace, id)
)`,
    `CREATE TABLE ${s}.monitor_silence (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  match_on text NOT NULL,
  comment text NOT NULL,
  starts_at bigint NOT NULL,
  ends_at bigint NOT NULL,
  PRIMARY KEY (namespace, id)
)`,

    `CREATE TABLE ${s}.monitor_subject (
  namespace ${text} NOT NULL,${subjectName},
  version bigint NOT NULL,
  state text NOT NULL,
  state_hash ${text} NOT NULL,
  observed_at bigint NOT NULL,
  changed_at bigint NOT NULL,
  memory text NOT NULL,
  PRIMARY KEY (namespace, subject)
) WITH (fillfactor = 50)`,
    `CREATE INDEX monitor_subject_name ON ${s}.monitor_subject (namespace, source, time_slot, venue_id)
  WHERE version > 0`,

    `CREATE TABLE ${s}.monitor_window (
  namespace ${text} NOT NULL,
  subject ${text} NOT NULL,
  subscription_id ${text} NOT NULL,
  state_hash ${text} NOT NULL,
  status ${text} NOT NULL CHECK (status IN ('pending', 'notified', 'owed')),
  notification_id ${text} NOT NULL,
  notified_at bigint,
  ends_at bigint,
  PRIMARY KEY (namespace, subject, subscription_id, state_hash)
)`,
    `CREATE INDEX monitor_window_over ON ${s}.monitor_window (namespace, ends_at) WHERE status = 'notified'`,

    `CREATE TABLE ${s}.monitor_decision (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,${subjectName},
  task_id text NOT NULL,
  reason ${text} NOT NULL,
  from_hash ${text},
  to_hash ${text} NOT NULL,
  from_text text,
  to_text text NOT NULL,
  event_id ${text},
  observed_at bigint NOT NULL,
  verdicts text NOT NULL,
  decided_at bigint NOT NULL,
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX monitor_decision_subject ON ${s}.monitor_decision (namespace, subject, id)`,
    `CREATE INDEX monitor_decision_decided ON ${s}.monitor_decision (namespace, decided_at)`,

    `CREATE TABLE ${s}.monitor_notification (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  subscription_id ${text} NOT NULL,
  channel ${text} NOT NULL,${subjectName},
  decision_id ${text},
  event_id ${text},
  kind ${text} NOT NULL,
  from_state text,
  to_state text NOT NULL,
  state_hash ${text} NOT NULL,
  window_ms bigint NOT NULL,
  max_attempts integer NOT NULL,
  status ${text} NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'dead', 'held', 'cancelled')),
  attempt integer NOT NULL,
  due_at bigint NOT NULL,
  created_at bigint NOT NULL,
  finished_at bigint,
  error text,
  possible_repeat boolean NOT NULL,
  digest_id ${text},
  PRIMARY KEY (namespace, id)
)`,
    // Those that are to be sent: in the order of the channel, and in that of their subject.
    `CREATE INDEX monitor_notification_line ON ${s}.monitor_notification (namespace, channel, id) WHERE ${isUnsettled}`,
    `CREATE INDEX monitor_notification_order ON ${s}.monitor_notification (namespace, channel, subject, id)
  WHERE ${isUnsettled}`,
    // Most are sent, and no statement looks for those.
    `CREATE INDEX monitor_notification_status ON ${s}.monitor_notification (namespace, status, id)
  WHERE status <> 'sent'`,
    `CREATE INDEX monitor_notification_dead ON ${s}.monitor_notification (namespace, subscription_id, finished_at)
  WHERE status = 'dead'`,
    `CREATE INDEX monitor_notification_subject ON ${s}.monitor_notification (namespace, subject, id)
  WHERE attempt >= 0`,
    `CREATE INDEX monitor_notification_count ON ${s}.monitor_notification (namespace, subscription_id, created_at)
  WHERE created_at > 0`,
    `CREATE INDEX monitor_notification_over ON ${s}.monitor_notification (namespace, finished_at)
  WHERE finished_at IS NOT NULL`,

    `CREATE TABLE ${s}.monitor_channel (
  namespace ${text} NOT NULL,
  channel ${text} NOT NULL,
  token ${text},
  lease_ends_at bigint,
  wanted boolean NOT NULL,
  state text,
  PRIMARY KEY (namespace, channel)
)`,

    // What a sender did: ends, in the order given within a subject, then beginnings. False, and nothing written: the
    // channel is not this sender's. Guards come before windows, and windows by subject, as where reports are written.
    `CREATE FUNCTION ${s}.signalbox_proceed(ns text, in_channel text, by_token text, lease_ms bigint, new_state text,
  ids text[], outcomes text[], afters_ms bigint[], frees boolean[], errors text[], digests text[],
  begun text[], repeats boolean[]) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  at bigint := ${nowMs};
  -- As a variable, so that each is found by its id and not by an index of those that are unsettled.
  unsettled text[] := ARRAY['pending', 'sending'];
  g record;
  n record;
  events text[];
  present text;
BEGIN
  UPDATE ${s}.monitor_channel SET lease_ends_at = greatest(lease_ends_at, at + lease_ms), state = new_state
  WHERE namespace = ns AND channel = in_channel AND token = by_token AND lease_ends_at > at;
  IF NOT FOUND THEN
    RETURN false;
  END IF;

  IF 'dead' = ANY (outcomes) THEN
    SELECT array_agg(d.event_id) INTO events
    FROM unnest(ids, outcomes) u (id, outcome)
    CROSS JOIN LATERAL (
      SELECT event_id FROM ${s}.monitor_notification
      WHERE namespace = ns AND id = u.id AND channel = in_channel AND status = ANY (unsettled) LIMIT 1
    ) d
    WHERE u.outcome = 'dead' AND d.event_id IS NOT NULL;
    DELETE FROM ${s}.once_guard WHERE namespace = ns AND space = 'monitor.event' AND guard_key = ANY (events);
  END IF;

  FOR g IN
    SELECT u.id, u.outcome, u.after_ms, u.free, u.error, u.digest
    FROM unnest(ids, outcomes, afters_ms, frees, errors, digests) WITH ORDINALITY
      u (id, outcome, after_ms, free, error, digest, nr)
    CROSS JOIN LATERAL (
      SELECT subject FROM ${s}.monitor_notification WHERE namespace = ns AND id = u.id LIMIT 1
    ) o
    ORDER BY o.subject, u.nr
  LOOP
    UPDATE ${s}.monitor_notification SET
      status = CASE g.outcome WHEN 'retry' THEN 'pending' ELSE g.outcome END,
      attempt = attempt - CASE WHEN g.outcome = 'retry' AND g.free THEN 1 ELSE 0 END,
      due_at = CASE g.outcome WHEN 'retry' THEN at + g.after_ms ELSE due_at END,
      finished_at = CASE g.outcome WHEN 'retry' THEN NULL ELSE at END,
      error = g.error, digest_id = g.digest
    WHERE namespace = ns AND id = g.id AND channel = in_channel AND status = ANY (unsettled)
    RETURNING subject, subscription_id, state_hash, window_ms INTO n;
    CONTINUE WHEN NOT FOUND;
    SELECT state_hash INTO present FROM ${s}.monitor_subject WHERE namespace = ns AND subject = n.subject;
    IF g.outcome = 'dead' THEN
      DELETE FROM ${s}.monitor_window
      WHERE namespace = ns AND subject = n.subject AND subscription_id = n.subscription_id
        AND status = 'owed' AND notified_at IS NULL AND state_hash IS DISTINCT FROM present;
      UPDATE ${s}.monitor_window SET status = 'owed'
      WHERE namespace = ns AND subject = n.subject AND subscription_id = n.subscription_id
        AND state_hash = n.state_hash AND status = 'pending' AND notification_id = g.id;
    ELSIF g.outcome = 'cancelled' THEN
      DELETE FROM ${s}.monitor_window
      WHERE namespace = ns AND subject = n.subject AND subscription_id = n.subscription_id
        AND state_hash = n.state_hash AND status = 'pending' AND notification_id = g.id;
    ELSIF g.outcome IN ('sent', 'held') THEN
      DELETE FROM ${s}.monitor_window
      WHERE namespace = ns AND subject = n.subject AND subscription_id = n.subscription_id
        AND state_hash <> n.state_hash
        AND (status = 'owed' AND state_hash IS DISTINCT FROM present
          OR status = 'notified' AND (ends_at IS NULL OR ends_at <= at));
      INSERT INTO ${s}.monitor_window (namespace, subject, subscription_id, state_hash, status, notification_id, notified_at,
        ends_at)
      VALUES (ns, n.subject, n.subscription_id, n.state_hash, 'notified', g.id, at, at + n.window_ms)
      ON CONFLICT (namespace, subject, subscription_id, state_hash) DO UPDATE SET status = excluded.status,
        notification_id = excluded.notification_id, notified_at = excluded.notified_at, ends_at = excluded.ends_at;
    END IF;
  END LOOP;

  FOR g IN SELECT u.id, u.repeat FROM unnest(begun, repeats) u (id, repeat) LOOP
    UPDATE ${s}.monitor_notification
    SET status = 'sending', attempt = attempt + 1, possible_repeat = possible_repeat OR g.repeat
    WHERE namespace = ns AND id = g.id AND channel = in_channel AND status = ANY (unsettled);
  END LOOP;
  RETURN true;
END $$`,
  ]
}
