import type { Migration } from '../../migration-plan.ts'

/**
 * Lines of locks. A line is a row of `lock_line`, which whoever changes the line has locked until the commit. Who waits
 * in it is in `lock_waiter`, how it ended for those who left is in `lock_outcome`, and the text of an end that was told to
 * many is in `lock_result` once for all of them. A line's names are too wide for an index, so it is found by their
 * SHA-256, `line_key`.
 *
 * `waiter_count` and `idle_since` (how it last ended, once nobody holds or waits) are there to find lines without looking
 * at those who wait; lines that are held or waited for have no `idle_since`, and follow each other by operation. The
 * widest index has 2,304 bytes of the 3,072 allowed.
 *
 * `lock_shard` has the last token of each 64th part of the resources. Its rows are never deleted: tokens rise for ever,
 * also when a line was forgotten.
 */
export const locksMigration: Migration = {
  number: 3,
  name: 'locks',
  statements: [
    `CREATE TABLE IF NOT EXISTS lock_line (
  line_key VARCHAR(43) NOT NULL PRIMARY KEY,
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
  KEY lock_line_due (namespace, due_at),
  KEY lock_line_idle (namespace, idle_since, operation, resource(191))
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS lock_waiter (
  line_key VARCHAR(43) NOT NULL,
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
  PRIMARY KEY (line_key, seq),
  UNIQUE KEY lock_waiter_requester (line_key, node, request_id),
  KEY lock_waiter_who (namespace, node, request_id),
  KEY lock_waiter_due (namespace, due_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS lock_outcome (
  line_key VARCHAR(43) NOT NULL,
  node VARCHAR(191) NOT NULL,
  request_id VARCHAR(191) NOT NULL,
  namespace VARCHAR(191) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  seq BIGINT NOT NULL,
  is_told BOOLEAN NOT NULL,
  kept_until BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  PRIMARY KEY (line_key, node, request_id),
  KEY lock_outcome_kept (namespace, kept_until)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS lock_result (
  line_key VARCHAR(43) NOT NULL,
  revision BIGINT NOT NULL,
  namespace VARCHAR(191) NOT NULL,
  value LONGTEXT NOT NULL,
  kept_until BIGINT NOT NULL,
  PRIMARY KEY (line_key, revision),
  KEY lock_result_kept (namespace, kept_until)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS lock_shard (
  shard INT NOT NULL PRIMARY KEY,
  last_token BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `INSERT IGNORE INTO lock_shard (shard, last_token) VALUES ${Array.from({ length: 64 }, (_, shard) => `(${shard}, 0)`).join(', ')}`,
  ],
}
