import type { Migration } from '../../migration-plan.ts'

/**
 * Guards and windows. A guard's `ends_at` is the end of its lease while it runs, and the time until which it is kept
 * after that. `forget_at` is when nothing is known of it any more: a lease that ran out counts as a failure at that
 * instant, and one that may run at most once is never forgotten while it runs. Its index is what is swept by.
 *
 * `opened_by` is a number that cannot be guessed, of whoever opened the window: it tells each of many in one statement
 * whether it was the one. The widest key has 1,656 bytes of the 3,072 allowed.
 */
export const onceMigration: Migration = {
  number: 4,
  name: 'once',
  statements: [
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
  opened_by VARCHAR(16) NOT NULL,
  ends_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, window_key),
  KEY once_window_ends (namespace, ends_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  ],
}
