import type { Table } from './table.ts'

/**
 * The store's own metadata, access tokens, audit entries and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because the server learns a token's namespace only from the token.
 * `nodes` lists the only nodes that a token of scope `node` may connect as. A request's key is written in the
 * transaction of its effect. MariaDB first writes it without an answer to lock its row; no other transaction ever sees
 * a key without an answer.
 *
 * `fleet_board` has a namespace's newest version and the newest deleted version. A writer locks its row until the
 * commit, so readers see versions in the order in which they were assigned, and writers cannot deadlock. A fleet row's
 * key of up to 600 characters may be too wide for an index and is found by its SHA-256. A removed row has `removed_at`
 * and no `doc`.
 */
export const server: readonly Table[] = [
  {
    name: 'signalbox_meta',
    // `key` is a reserved word of MariaDB.
    columns: `
      [postgres sqlite] key text, [mariadb] name text(64), [postgres sqlite] value text, [mariadb] value text(191)`,
    key: 'key',
    keyOn: { mariadb: 'name' },
    rows: {
      postgres: `INSERT INTO @signalbox_meta (key, value) VALUES ('store_id', gen_random_uuid()::text)`,
      mariadb: `INSERT IGNORE INTO @signalbox_meta (name, value) VALUES ('store_id', UUID())`,
      sqlite: `INSERT INTO @signalbox_meta (key, value) VALUES ('store_id', lower(hex(randomblob(16))))`,
    },
  },
  {
    name: 'access_token',
    columns: `
      namespace name, id name(64), name text(191), scope enum(read|work|admin|node), digest name(64), created_at big,
      expires_at big?, revoked_at big?, nodes text(medium)?`,
    key: 'id',
  },
  {
    name: 'request_key',
    columns: `
      namespace name, caller name, key name(255), fingerprint name(64), [postgres sqlite] answer text,
      [mariadb] answer text?, created_at big, expires_at big`,
    key: 'namespace, caller, key',
    indexes: 'request_key_expires (expires_at)',
  },
  {
    name: 'audit_entry',
    columns: `
      namespace name, id name(64), at big, actor name, actor_name text(191)?, action name, target text(short),
      outcome enum(done|refused|unknown), code name?`,
    key: 'namespace, id',
    indexes: `
      audit_entry_action (namespace, action, id)
      audit_entry_actor (namespace, actor, id)
      audit_entry_at (namespace, at)`,
  },
  { name: 'fleet_board', columns: 'namespace name, version big, forgotten big', key: 'namespace' },
  {
    name: 'fleet_row',
    columns: `
      namespace name, kind name(16), key_hash name(43), row_key name(600), version big, expires_at big?,
      removed_at big?, doc text?`,
    key: 'namespace, kind, key_hash',
    sqliteNumber: 'rowid',
    indexes: `
      [postgres sqlite] unique fleet_row_version (namespace, version)
      [mariadb] fleet_row_version (namespace, version)
      [postgres sqlite] fleet_row_removed (namespace, removed_at, version) WHERE removed_at IS NOT NULL
      [mariadb] fleet_row_removed (namespace, removed_at, version)`,
  },
]

const subject = 'subject name(64), source name, time_slot name, venue_id name'

/**
 * The monitor. `monitor_subject` has the last state of each subject, with a version that every write raises.
 * `monitor_window` records the states that each subscription was or will be notified of, and `monitor_decision` the
 * reasons. `monitor_notification` has the messages to send through a channel: `finished_at` is null until a
 * notification is settled. One sender at a time holds a channel, with its row in `monitor_channel`. `monitor_rules`
 * counts the changes of subscriptions and silences.
 *
 * Updates of subjects change only columns without an index, so Postgres leaves half of each page empty: it writes the
 * new version of a row beside the old one, and no index changes.
 *
 * Postgres makes plans once per connection, perhaps while a table is empty, when every index that begins with the
 * namespace has the same cost. So an index that does not find single rows has a condition that always holds (version >
 * 0). A statement for that index repeats the condition, and no other statement reads a whole namespace by mistake.
 *
 * MariaDB has no partial indexes, so every notification has an entry in each index. Its index by status also counts
 * dead notifications by subscription. The widest has 3,056 bytes of the 3,072 allowed.
 */
export const monitor: readonly Table[] = [
  { name: 'monitor_rules', columns: 'namespace name, revision big', key: 'namespace' },
  {
    name: 'monitor_subscription',
    columns: `
      namespace name, id name(64), name text(191), match_on text, channel text, options text, created_at big`,
    key: 'namespace, id',
  },
  {
    name: 'monitor_silence',
    columns: 'namespace name, id name(64), match_on text, comment text, starts_at big, ends_at big',
    key: 'namespace, id',
  },
  {
    name: 'monitor_subject',
    columns: `
      namespace name, ${subject}, version big, observed_at big, changed_at big, state_hash name(64), memory text,
      state text`,
    key: 'namespace, subject',
    sqliteNumber: 'seen',
    fillfactor: 50,
    indexes: `
      [mariadb sqlite] monitor_subject_name (namespace, source, time_slot, venue_id)
      [postgres] monitor_subject_name (namespace, source, time_slot, venue_id) WHERE version > 0`,
  },
  {
    name: 'monitor_window',
    columns: `
      namespace name, subject name(64), subscription_id name(64), state_hash name(64),
      status enum(pending|notified|owed) [mariadb] = 'pending', notification_id name(64), notified_at big?,
      ends_at big?`,
    key: 'namespace, subject, subscription_id, state_hash',
    indexes: `
      [mariadb] monitor_window_ends (namespace, status, ends_at)
      [postgres sqlite] monitor_window_ends (namespace, ends_at) WHERE status = 'notified'`,
  },
  {
    name: 'monitor_decision',
    columns: `
      namespace name, id name(64), ${subject}, task_id text(191), reason name(64), from_hash name(64)?,
      to_hash name(64), from_text text?, to_text text, event_id name?, observed_at big, verdicts text,
      decided_at big`,
    key: 'namespace, id',
    indexes: `
      monitor_decision_subject (namespace, subject, id)
      monitor_decision_decided (namespace, decided_at)`,
  },
  {
    name: 'monitor_notification',
    columns: `
      namespace name, id name(64), subscription_id name(64), channel name(64), ${subject}, decision_id name(64)?,
      event_id name?, kind name(32), from_state text?, to_state text, state_hash name(64), window_ms big,
      max_attempts int, status enum(pending|sending|sent|dead|held|cancelled) [mariadb sqlite] = 'pending',
      attempt int [mariadb sqlite] = 0, due_at big, created_at big, finished_at big?, error text?,
      possible_repeat bool [mariadb sqlite] = FALSE, digest_id name(64)?`,
    key: 'namespace, id',
    sqliteNumber: 'made',
    // Unsettled notifications: in their order, by subject, and by due time. Most notifications are sent, and no
    // statement searches for sent ones by status.
    indexes: `
      [mariadb] monitor_notification_unsettled (namespace, channel, finished_at, id)
      [mariadb] monitor_notification_first (namespace, channel, finished_at, subject, id)
      [mariadb] monitor_notification_due (namespace, channel, finished_at, due_at)
      [mariadb] monitor_notification_status (namespace, status, subscription_id, finished_at)
      [mariadb] monitor_notification_finished (namespace, finished_at)
      [postgres sqlite] monitor_notification_unsettled (namespace, channel, id) WHERE finished_at IS NULL
      [postgres sqlite] monitor_notification_first (namespace, channel, subject, id) WHERE finished_at IS NULL AND subject > ''
      [postgres sqlite] monitor_notification_due (namespace, channel, due_at) WHERE finished_at IS NULL AND max_attempts >= 0
      [postgres sqlite] monitor_notification_status (namespace, status, id) WHERE status <> 'sent'
      [postgres sqlite] monitor_notification_dead (namespace, subscription_id, finished_at) WHERE status = 'dead'
      [postgres sqlite] monitor_notification_finished (namespace, finished_at) WHERE finished_at IS NOT NULL
      [mariadb sqlite] monitor_notification_subject (namespace, subject, id)
      [mariadb sqlite] monitor_notification_created (namespace, subscription_id, created_at)
      [postgres] monitor_notification_subject (namespace, subject, id) WHERE attempt >= 0
      [postgres] monitor_notification_created (namespace, subscription_id, created_at) WHERE window_ms >= 0`,
  },
  {
    name: 'monitor_channel',
    columns: `
      namespace name, channel name(64), token name?, lease_ends_at big?, wanted bool = FALSE, state text?`,
    key: 'namespace, channel',
  },
]
