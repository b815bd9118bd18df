/**
 * Locks, guards and windows.
 *
 * A wait queue is a row of `lock_queue`, which a transaction that changes the queue locks until the commit. Its waiters are in
 * `lock_waiter`, the outcomes of those who left in `lock_outcome`, and a result that many waiters share is in `lock_result`
 * once for all of them. The names of a queue are too wide for an index, so it is found by their SHA-256, `queue_key`.
 *
 * `waiter_count` and `idle_since` (when the lock was last released, once it has no holder and no waiter) find queues without
 * reading waiters; a held or awaited lock has no `idle_since`, and follows the others by operation. The widest index has
 * 2,304 bytes of the 3,072 allowed.
 *
 * `lock_shard` has the last token of each 64th part of the resources. Its rows are never deleted: tokens rise for ever, also
 * when a queue was forgotten.
 *
 * A guard's `ends_at` is the end of its lease while it runs, and the time until which it is kept after that. `forget_at` is
 * when it is forgotten: an expired lease counts as a failure at that instant, and an at-most-once guard is never forgotten
 * while it runs. Its index serves the sweep.
 *
 * `opened_by` is a random number of the call that opened the window: it shows each of many calls whether it was the one. The widest key has 1,656 bytes of the 3,072 allowed.
 */
export const locks: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS lock_queue (
  queue_key VARCHAR(43) NOT NULL PRIMARY KEY,
  namespace VARCHAR(191) NOT NULL,
  operation VARCHAR(191) NOT NULL,
  resource VARCHAR(1024) NOT NULL,
  attempt INT NOT NULL DEFAULT 0,
  grant_from BIGINT NOT NULL DEFAULT 0,
  revision BIGINT NOT NULL DEFAULT 0,
  waiter_count INT NOT NULL DEFAULT 0,
  due_at BIGINT NULL,
  holder_node VARCHAR(191) NULL,
  holder_request_id VARCHAR(191) NULL,
  token BIGINT NULL,
  holder_attempt INT NULL,
  holder_since BIGINT NULL,
  holder_ttl_ms BIGINT NULL,
  lease_ends_at BIGINT NULL,
  take_up_by BIGINT NULL,
  holder_seq BIGINT NULL,
  progress LONGTEXT NULL,
  last_outcome VARCHAR(16) NULL,
  last_node VARCHAR(191) NULL,
  last_attempt INT NULL,
  last_at BIGINT NULL,
  last_value LONGTEXT NULL,
  idle_since BIGINT AS (CASE WHEN holder_node IS NULL AND waiter_count = 0 THEN COALESCE(last_at, 0) END) PERSISTENT,
  KEY lock_queue_due (namespace, due_at),
  KEY lock_queue_idle (namespace, idle_since, operation, resource(191))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS lock_waiter (
  queue_key VARCHAR(43) NOT NULL,
  seq BIGINT NOT NULL,
  namespace VARCHAR(191) NOT NULL,
  node VARCHAR(191) NOT NULL,
  request_id VARCHAR(191) NOT NULL,
  want VARCHAR(16) NOT NULL,
  ttl_ms BIGINT NOT NULL,
  since BIGINT NOT NULL,
  lease_ends_at BIGINT NOT NULL,
  deadline_at BIGINT NULL,
  is_streamed BOOLEAN NOT NULL,
  due_at BIGINT NOT NULL,
  PRIMARY KEY (queue_key, seq),
  UNIQUE KEY lock_waiter_requester (queue_key, node, request_id),
  KEY lock_waiter_who (namespace, node, request_id),
  KEY lock_waiter_due (namespace, due_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS lock_outcome (
  queue_key VARCHAR(43) NOT NULL,
  node VARCHAR(191) NOT NULL,
  request_id VARCHAR(191) NOT NULL,
  namespace VARCHAR(191) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  seq BIGINT NOT NULL,
  is_notified BOOLEAN NOT NULL,
  kept_until BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  PRIMARY KEY (queue_key, node, request_id),
  KEY lock_outcome_kept (namespace, kept_until)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS lock_result (
  queue_key VARCHAR(43) NOT NULL,
  revision BIGINT NOT NULL,
  namespace VARCHAR(191) NOT NULL,
  value LONGTEXT NOT NULL,
  kept_until BIGINT NOT NULL,
  PRIMARY KEY (queue_key, revision),
  KEY lock_result_kept (namespace, kept_until)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS lock_shard (
  shard INT NOT NULL PRIMARY KEY,
  last_token BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `INSERT IGNORE INTO lock_shard (shard, last_token) VALUES ${Array.from({ length: 64 }, (_, shard) => `(${shard}, 0)`).join(', ')}`,
  `CREATE TABLE IF NOT EXISTS once_guard (
  namespace VARCHAR(191) NOT NULL,
  space VARCHAR(32) NOT NULL,
  guard_key VARCHAR(191) NOT NULL,
  status ENUM ('running', 'done', 'failed') NOT NULL,
  mode ENUM ('at-least-once', 'at-most-once') NOT NULL,
  attempt INT NOT NULL,
  token_no BIGINT NOT NULL,
  token_nonce VARCHAR(16) NOT NULL,
  fingerprint VARCHAR(191) NULL,
  result LONGTEXT NULL,
  claimed_at BIGINT NOT NULL,
  keep_ms BIGINT NOT NULL,
  ends_at BIGINT NOT NULL,
  forget_at BIGINT AS (CASE
    WHEN status <> 'running' THEN ends_at
    WHEN mode = 'at-least-once' THEN ends_at + keep_ms
  END) PERSISTENT,
  PRIMARY KEY (namespace, space, guard_key),
  KEY once_guard_forget (namespace, forget_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS once_window (
  namespace VARCHAR(191) NOT NULL,
  window_key VARCHAR(64) NOT NULL,
  value VARCHAR(64) NOT NULL,
  opened_by VARCHAR(16) NOT NULL DEFAULT '',
  opened_at BIGINT NOT NULL DEFAULT 0,
  ends_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, window_key),
  KEY once_window_ends (namespace, ends_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
