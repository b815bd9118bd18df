/**
 * The store's own notes, access, audit and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because a bearer shows it before its namespace is known. `nodes` names the only
 * nodes that a token of scope `node` may connect as. A request's key is written in the transaction of its effect.
 *
 * `fleet_board` has the newest version of a namespace and the newest that was forgotten. A writer locks its row until the
 * commit, so versions are seen in the order in which they were given, and writers cannot deadlock. A fleet row's key of up to
 * 600 characters may be too wide for an index and is found by its SHA-256. A removed row has no `doc`, and `removed_at`. A
 * writer reads the time once it has the lock.
 */
export function server(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.signalbox_meta (key text PRIMARY KEY, value text NOT NULL)`,
    `INSERT INTO ${s}.signalbox_meta (key, value) VALUES ('store_id', gen_random_uuid()::text)`,

    `CREATE TABLE ${s}.access_token (
  namespace ${text} NOT NULL,
  id ${text} PRIMARY KEY,
  name text NOT NULL,
  scope ${text} NOT NULL CHECK (scope IN ('read', 'work', 'admin', 'node')),
  digest ${text} NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  nodes text
)`,
    `CREATE TABLE ${s}.request_key (
  namespace ${text} NOT NULL,
  caller ${text} NOT NULL,
  key ${text} NOT NULL,
  fingerprint ${text} NOT NULL,
  answer text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (namespace, caller, key)
)`,
    `CREATE INDEX request_key_expires ON ${s}.request_key (expires_at)`,

    `CREATE TABLE ${s}.audit_entry (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  at bigint NOT NULL,
  actor ${text} NOT NULL,
  actor_name text,
  action ${text} NOT NULL,
  target text NOT NULL,
  outcome ${text} NOT NULL CHECK (outcome IN ('done', 'refused', 'unknown')),
  code ${text},
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX audit_entry_action ON ${s}.audit_entry (namespace, action, id)`,
    `CREATE INDEX audit_entry_actor ON ${s}.audit_entry (namespace, actor, id)`,
    `CREATE INDEX audit_entry_at ON ${s}.audit_entry (namespace, at)`,

    `CREATE TABLE ${s}.fleet_board (
  namespace ${text} NOT NULL PRIMARY KEY,
  version bigint NOT NULL,
  forgotten bigint NOT NULL
)`,
    `CREATE TABLE ${s}.fleet_row (
  namespace ${text} NOT NULL,
  kind ${text} NOT NULL,
  key_hash ${text} NOT NULL,
  row_key ${text} NOT NULL,
  version bigint NOT NULL,
  doc text,
  expires_at bigint,
  removed_at bigint,
  PRIMARY KEY (namespace, kind, key_hash)
)`,
    `CREATE UNIQUE INDEX fleet_row_version ON ${s}.fleet_row (namespace, version)`,
    `CREATE INDEX fleet_row_removed ON ${s}.fleet_row (namespace, removed_at, version) WHERE removed_at IS NOT NULL`,
  ]
}

/**
 * Guards: a row of `once_guard` for each key that is running, done or failed, and of `once_window` for each window. Every
 * statement treats rows past their time as absent; deleting them only saves disk space.
 * `opened_by` is a random number of the call that opened the window.
 */
export function once(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.once_guard (
  namespace ${text} NOT NULL,
  space ${text} NOT NULL,
  guard_key ${text} NOT NULL,
  status ${text} NOT NULL CHECK (status IN ('running', 'done', 'failed')),
  mode ${text} NOT NULL CHECK (mode IN ('at-least-once', 'at-most-once')),
  attempt integer NOT NULL,
  token_no bigint NOT NULL,
  token_nonce ${text} NOT NULL,
  fingerprint ${text},
  result text,
  claimed_at bigint NOT NULL,
  keep_ms bigint NOT NULL,
  ends_at bigint NOT NULL,
  forget_at bigint GENERATED ALWAYS AS (CASE
    WHEN status <> 'running' THEN ends_at
    WHEN mode = 'at-least-once' THEN ends_at + keep_ms
  END) STORED,
  PRIMARY KEY (namespace, space, guard_key)
)`,
    // An expired claim is remembered like a failed one; `forget_at` of one that may be stuck is null.
    `CREATE INDEX once_guard_forget ON ${s}.once_guard (namespace, forget_at) WHERE forget_at IS NOT NULL`,

    `CREATE TABLE ${s}.once_window (
  namespace ${text} NOT NULL,
  window_key ${text} NOT NULL,
  value ${text} NOT NULL,
  opened_by ${text} NOT NULL DEFAULT '',
  opened_at bigint NOT NULL DEFAULT 0,
  ends_at bigint NOT NULL,
  PRIMARY KEY (namespace, window_key)
)`,
    `CREATE INDEX once_window_over ON ${s}.once_window (namespace, ends_at)`,
  ]
}

/**
 * The monitor. `monitor_subject` has the last state of each subject, with a version that every write raises. `monitor_window`
 * has what each subscription was notified of, or is about to be, and `monitor_decision` why. `monitor_notification` has what is
 * to be sent through a channel: `finished_at` is null until it is settled. One sender at a time has a channel, by its row in
 * `monitor_channel`. `monitor_rules` counts the changes of subscriptions and silences.
 *
 * Updates of subjects touch only columns without an index, so their pages are left half empty: Postgres then writes the
 * new version of a row beside the old one, and no index changes.
 *
 * Plans are made once per connection, perhaps while a table is empty, when every index that begins with the namespace costs
 * the same. So an index that is not for finding single rows has a condition that always holds (version > 0). A statement that
 * means the index repeats the condition, and no other statement reads all of a namespace by mistake.
 */
export function monitor(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  const subjectName = `
  subject ${text} NOT NULL,
  source ${text} NOT NULL,
  time_slot ${text} NOT NULL,
  venue_id ${text} NOT NULL`
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
    `CREATE INDEX monitor_window_ends ON ${s}.monitor_window (namespace, ends_at) WHERE status = 'notified'`,

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
    // Those that are to be sent: in their order, by subject, and by when they fall due.
    `CREATE INDEX monitor_notification_unsettled ON ${s}.monitor_notification (namespace, channel, id)
  WHERE finished_at IS NULL`,
    `CREATE INDEX monitor_notification_first ON ${s}.monitor_notification (namespace, channel, subject, id)
  WHERE finished_at IS NULL AND subject > ''`,
    `CREATE INDEX monitor_notification_due ON ${s}.monitor_notification (namespace, channel, due_at)
  WHERE finished_at IS NULL AND max_attempts >= 0`,
    // Most are sent, and no statement looks for those by their status.
    `CREATE INDEX monitor_notification_status ON ${s}.monitor_notification (namespace, status, id)
  WHERE status <> 'sent'`,
    `CREATE INDEX monitor_notification_dead ON ${s}.monitor_notification (namespace, subscription_id, finished_at)
  WHERE status = 'dead'`,
    `CREATE INDEX monitor_notification_subject ON ${s}.monitor_notification (namespace, subject, id)
  WHERE attempt >= 0`,
    `CREATE INDEX monitor_notification_created ON ${s}.monitor_notification (namespace, subscription_id, created_at)
  WHERE window_ms >= 0`,
    `CREATE INDEX monitor_notification_finished ON ${s}.monitor_notification (namespace, finished_at)
  WHERE finished_at IS NOT NULL`,

    `CREATE TABLE ${s}.monitor_channel (
  namespace ${text} NOT NULL,
  channel ${text} NOT NULL,
  token ${text},
  lease_ends_at bigint,
  wanted boolean NOT NULL DEFAULT false,
  state text,
  PRIMARY KEY (namespace, channel)
)`,
  ]
}
