/**
 * The monitor: what is known of subjects, which subscriptions were notified of it and why, and notifications on their way.
 *
 * `monitor_rules` has a number that rises with every change of subscriptions and silences. Transactions that write decisions
 * share its row; a transaction that changes the rules locks it.
 *
 * `open_channel` is a notification's channel until it is settled, so the index on it reads the unsettled ones of a channel,
 * subject by subject, without those of the past. `monitor_notification_status` counts dead notifications by subscription, and
 * lists by status; without partial indexes every notification has an entry. The widest index has 3,056 bytes of the 3,072
 * allowed.
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
  PRIMARY KEY (namespace, id),
  KEY monitor_silence_ends (namespace, ends_at)
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
  open_channel VARCHAR(64) AS (CASE WHEN status IN ('pending', 'sending') THEN channel END) PERSISTENT,
  PRIMARY KEY (namespace, id),
  KEY monitor_notification_open (namespace, open_channel, subject, id, due_at),
  KEY monitor_notification_subject (namespace, subject, id),
  KEY monitor_notification_subscription (namespace, subscription_id, created_at),
  KEY monitor_notification_finished (namespace, finished_at),
  KEY monitor_notification_status (namespace, status, subscription_id, finished_at)
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
