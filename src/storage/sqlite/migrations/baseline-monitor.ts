/**
 * The monitor, as on Postgres (postgres/migrations/baseline-monitor.ts). A subject's row is written with every report, so it
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
