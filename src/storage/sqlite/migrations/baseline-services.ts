/**
 * The store's own notes, access, audit and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because a bearer shows it before its namespace is known. `nodes` names the only
 * nodes that a token of scope `node` may connect as.
 *
 * `fleet_board` has the newest version of a namespace and the newest that was forgotten. A fleet row's key may be wide, so
 * the row is found by the key's SHA-256. A removed row has no `doc`, and `removed_at`. The document may be large: it is last.
 */
export const server: readonly string[] = [
  `CREATE TABLE signalbox_meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `INSERT INTO signalbox_meta (key, value) VALUES ('store_id', lower(hex(randomblob(16))))`,
  `CREATE TABLE access_token (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    nodes TEXT
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE request_key (
    namespace TEXT NOT NULL,
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, caller, key)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX request_key_expires ON request_key (expires_at)`,
  `CREATE TABLE audit_entry (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    actor_name TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX audit_entry_action ON audit_entry (namespace, action, id)`,
  `CREATE INDEX audit_entry_actor ON audit_entry (namespace, actor, id)`,
  `CREATE INDEX audit_entry_at ON audit_entry (namespace, at)`,
  `CREATE TABLE fleet_board (
    namespace TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    forgotten INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE fleet_row (
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    key_hash TEXT NOT NULL,
    row_key TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER,
    removed_at INTEGER,
    doc TEXT,
    PRIMARY KEY (namespace, kind, key_hash)
  ) STRICT`,
  `CREATE UNIQUE INDEX fleet_row_version ON fleet_row (namespace, version)`,
  `CREATE INDEX fleet_row_removed ON fleet_row (namespace, removed_at, version)
    WHERE removed_at IS NOT NULL`,
]

/**
 * The monitor, as on Postgres (postgres/migrations/baseline-services.ts). A subject's row is written with every report, so it
 * has an integer key and no index over what changes. Decisions are written once and their ids rise, so they are their own index.
 */
export const monitor: readonly string[] = [
  `CREATE TABLE monitor_rules (
    namespace TEXT NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE monitor_subscription (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    match_on TEXT NOT NULL,
    channel TEXT NOT NULL,
    options TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE monitor_silence (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    match_on TEXT NOT NULL,
    comment TEXT NOT NULL,
    starts_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE monitor_subject (
    seen INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    subject TEXT NOT NULL,
    source TEXT NOT NULL,
    time_slot TEXT NOT NULL,
    venue_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    observed_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    state_hash TEXT NOT NULL,
    memory TEXT NOT NULL,
    state TEXT NOT NULL
  ) STRICT`,
  `CREATE UNIQUE INDEX monitor_subject_key ON monitor_subject (namespace, subject)`,
  `CREATE INDEX monitor_subject_name ON monitor_subject (namespace, source, time_slot, venue_id)`,
  `CREATE TABLE monitor_window (
    namespace TEXT NOT NULL,
    subject TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    state_hash TEXT NOT NULL,
    status TEXT NOT NULL,
    notification_id TEXT NOT NULL,
    notified_at INTEGER,
    ends_at INTEGER,
    PRIMARY KEY (namespace, subject, subscription_id, state_hash)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX monitor_window_ends ON monitor_window (namespace, ends_at) WHERE status = 'notified'`,
  `CREATE TABLE monitor_decision (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    subject TEXT NOT NULL,
    source TEXT NOT NULL,
    time_slot TEXT NOT NULL,
    venue_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    from_hash TEXT,
    to_hash TEXT NOT NULL,
    from_text TEXT,
    to_text TEXT NOT NULL,
    event_id TEXT,
    observed_at INTEGER NOT NULL,
    verdicts TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX monitor_decision_subject ON monitor_decision (namespace, subject, id)`,
  `CREATE INDEX monitor_decision_decided ON monitor_decision (namespace, decided_at)`,
  `CREATE TABLE monitor_notification (
    made INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    subscription_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    subject TEXT NOT NULL,
    source TEXT NOT NULL,
    time_slot TEXT NOT NULL,
    venue_id TEXT NOT NULL,
    decision_id TEXT,
    event_id TEXT,
    kind TEXT NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    state_hash TEXT NOT NULL,
    window_ms INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending',
    attempt INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    error TEXT,
    possible_repeat INTEGER NOT NULL DEFAULT 0,
    digest_id TEXT
  ) STRICT`,
  `CREATE UNIQUE INDEX monitor_notification_key ON monitor_notification (namespace, id)`,
  `CREATE INDEX monitor_notification_unsettled
    ON monitor_notification (namespace, channel, id) WHERE finished_at IS NULL`,
  `CREATE INDEX monitor_notification_first
    ON monitor_notification (namespace, channel, subject, id) WHERE finished_at IS NULL AND subject > ''`,
  `CREATE INDEX monitor_notification_due
    ON monitor_notification (namespace, channel, due_at) WHERE finished_at IS NULL AND max_attempts >= 0`,
  `CREATE INDEX monitor_notification_status ON monitor_notification (namespace, status, id) WHERE status <> 'sent'`,
  `CREATE INDEX monitor_notification_dead ON monitor_notification (namespace, subscription_id, finished_at)
    WHERE status = 'dead'`,
  `CREATE INDEX monitor_notification_subject ON monitor_notification (namespace, subject, id)`,
  `CREATE INDEX monitor_notification_created ON monitor_notification (namespace, subscription_id, created_at)`,
  `CREATE INDEX monitor_notification_finished
    ON monitor_notification (namespace, finished_at) WHERE finished_at IS NOT NULL`,
  `CREATE TABLE monitor_channel (
    namespace TEXT NOT NULL,
    channel TEXT NOT NULL,
    token TEXT,
    lease_ends_at INTEGER,
    wanted INTEGER NOT NULL DEFAULT 0,
    state TEXT,
    PRIMARY KEY (namespace, channel)
  ) STRICT, WITHOUT ROWID`,
]
