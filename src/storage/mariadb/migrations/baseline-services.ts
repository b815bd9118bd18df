/**
 * The store's own notes, access, audit and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because a bearer shows it before its namespace is known. `nodes` names the only
 * nodes that a token of scope `node` may connect as.
 *
 * A request's key is written in the transaction of its effect: first without an answer, so that its row is locked, and at the
 * end with it. No other transaction ever sees one without. Its primary key has 2,548 bytes of the 3,072 allowed.
 *
 * `fleet_board` has the newest version of a namespace and the newest that was forgotten. A writer locks its row until the
 * commit, so versions are seen in the order in which they were given, and writers cannot deadlock. A fleet row's key of up to
 * 600 characters is too wide for an index and is found by its SHA-256. A removed row has no `doc`, and `removed_at`.
 */
export const server: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS signalbox_meta (
  name VARCHAR(64) NOT NULL PRIMARY KEY,
  value VARCHAR(191) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `INSERT IGNORE INTO signalbox_meta (name, value) VALUES ('store_id', UUID())`,
  `CREATE TABLE IF NOT EXISTS access_token (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  name VARCHAR(191) NOT NULL,
  scope ENUM ('read', 'work', 'admin', 'node') NOT NULL,
  digest VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NULL,
  revoked_at BIGINT NULL,
  nodes MEDIUMTEXT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS request_key (
  namespace VARCHAR(191) NOT NULL,
  caller VARCHAR(191) NOT NULL,
  \`key\` VARCHAR(255) NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  answer LONGTEXT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, caller, \`key\`),
  KEY request_key_expires (expires_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS audit_entry (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  at BIGINT NOT NULL,
  actor VARCHAR(191) NOT NULL,
  actor_name VARCHAR(191) NULL,
  action VARCHAR(191) NOT NULL,
  target TEXT NOT NULL,
  outcome ENUM ('done', 'refused', 'unknown') NOT NULL,
  code VARCHAR(191) NULL,
  PRIMARY KEY (namespace, id),
  KEY audit_entry_action (namespace, action, id),
  KEY audit_entry_actor (namespace, actor, id),
  KEY audit_entry_at (namespace, at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS fleet_board (
  namespace VARCHAR(191) NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL,
  forgotten BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS fleet_row (
  namespace VARCHAR(191) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  key_hash VARCHAR(43) NOT NULL,
  row_key VARCHAR(600) NOT NULL,
  version BIGINT NOT NULL,
  doc LONGTEXT NULL,
  expires_at BIGINT NULL,
  removed_at BIGINT NULL,
  PRIMARY KEY (namespace, kind, key_hash),
  KEY fleet_row_version (namespace, version),
  KEY fleet_row_removed (namespace, removed_at, version)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]

/**
 * The monitor, as on Postgres (postgres/migrations/baseline-services.ts). There are no partial indexes, so every notification
 * has an entry in each: those that are not settled are found by `finished_at`, which is null. The index by status also counts dead
 * notifications by subscription. The widest index has 3,056 bytes of the 3,072 allowed.
 */
export const monitor: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS monitor_rules (
  namespace VARCHAR(191) NOT NULL PRIMARY KEY,
  revision BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_subscription (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  name VARCHAR(191) NOT NULL,
  match_on LONGTEXT NOT NULL,
  channel LONGTEXT NOT NULL,
  options LONGTEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_silence (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  match_on LONGTEXT NOT NULL,
  comment LONGTEXT NOT NULL,
  starts_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_subject (
  namespace VARCHAR(191) NOT NULL,
  subject VARCHAR(64) NOT NULL,
  source VARCHAR(191) NOT NULL,
  time_slot VARCHAR(191) NOT NULL,
  venue_id VARCHAR(191) NOT NULL,
  version BIGINT NOT NULL,
  state LONGTEXT NOT NULL,
  state_hash VARCHAR(64) NOT NULL,
  observed_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL,
  memory LONGTEXT NOT NULL,
  PRIMARY KEY (namespace, subject),
  KEY monitor_subject_name (namespace, source, time_slot, venue_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_window (
  namespace VARCHAR(191) NOT NULL,
  subject VARCHAR(64) NOT NULL,
  subscription_id VARCHAR(64) NOT NULL,
  state_hash VARCHAR(64) NOT NULL,
  status ENUM ('pending', 'notified', 'owed') NOT NULL DEFAULT 'pending',
  notification_id VARCHAR(64) NOT NULL,
  notified_at BIGINT NULL,
  ends_at BIGINT NULL,
  PRIMARY KEY (namespace, subject, subscription_id, state_hash),
  KEY monitor_window_ends (namespace, status, ends_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_decision (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  subject VARCHAR(64) NOT NULL,
  source VARCHAR(191) NOT NULL,
  time_slot VARCHAR(191) NOT NULL,
  venue_id VARCHAR(191) NOT NULL,
  task_id VARCHAR(191) NOT NULL,
  reason VARCHAR(64) NOT NULL,
  from_hash VARCHAR(64) NULL,
  to_hash VARCHAR(64) NOT NULL,
  from_text LONGTEXT NULL,
  to_text LONGTEXT NOT NULL,
  event_id VARCHAR(191) NULL,
  observed_at BIGINT NOT NULL,
  verdicts LONGTEXT NOT NULL,
  decided_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, id),
  KEY monitor_decision_subject (namespace, subject, id),
  KEY monitor_decision_decided (namespace, decided_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_notification (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  subscription_id VARCHAR(64) NOT NULL,
  channel VARCHAR(64) NOT NULL,
  subject VARCHAR(64) NOT NULL,
  source VARCHAR(191) NOT NULL,
  time_slot VARCHAR(191) NOT NULL,
  venue_id VARCHAR(191) NOT NULL,
  decision_id VARCHAR(64) NULL,
  event_id VARCHAR(191) NULL,
  kind VARCHAR(32) NOT NULL,
  from_state LONGTEXT NULL,
  to_state LONGTEXT NOT NULL,
  state_hash VARCHAR(64) NOT NULL,
  window_ms BIGINT NOT NULL,
  max_attempts INT NOT NULL,
  status ENUM ('pending', 'sending', 'sent', 'dead', 'held', 'cancelled') NOT NULL DEFAULT 'pending',
  attempt INT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  finished_at BIGINT NULL,
  error LONGTEXT NULL,
  possible_repeat BOOLEAN NOT NULL DEFAULT FALSE,
  digest_id VARCHAR(64) NULL,
  PRIMARY KEY (namespace, id),
  KEY monitor_notification_unsettled (namespace, channel, finished_at, id),
  KEY monitor_notification_first (namespace, channel, finished_at, subject, id),
  KEY monitor_notification_due (namespace, channel, finished_at, due_at),
  KEY monitor_notification_status (namespace, status, subscription_id, finished_at),
  KEY monitor_notification_subject (namespace, subject, id),
  KEY monitor_notification_created (namespace, subscription_id, created_at),
  KEY monitor_notification_finished (namespace, finished_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS monitor_channel (
  namespace VARCHAR(191) NOT NULL,
  channel VARCHAR(64) NOT NULL,
  token VARCHAR(191) NULL,
  lease_ends_at BIGINT NULL,
  wanted BOOLEAN NOT NULL DEFAULT FALSE,
  state LONGTEXT NULL,
  PRIMARY KEY (namespace, channel)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
