import type { Migration } from '../../migration-plan.ts'

/**
 * Words about a job, what its attempts say of themselves, and schedules.
 *
 * `job_progress` has a row for each attempt that said anything; its counters number the attempt's lines and say how much
 * room is left. Whoever adds to an attempt has that row locked until the commit, so no number is given twice. Rows are
 * locked in one order: by job, then attempt.
 *
 * The due schedules of a namespace are one range of an index: `due_at` is empty while a schedule is paused. The widest
 * key has 1,540 bytes of the 3,072 allowed.
 */
export const comfortMigration: Migration = {
  number: 8,
  name: 'comfort',
  statements: [
    'ALTER TABLE job_queue ADD COLUMN IF NOT EXISTS meta LONGTEXT NULL',
    'ALTER TABLE job_history ADD COLUMN IF NOT EXISTS meta LONGTEXT NULL',
    `CREATE TABLE IF NOT EXISTS job_progress (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  attempt INT NOT NULL,
  progress LONGTEXT NULL,
  progress_at BIGINT NULL,
  line_count INT NOT NULL DEFAULT 0,
  line_bytes INT NOT NULL DEFAULT 0,
  dropped_count BIGINT NOT NULL DEFAULT 0,
  dropped_at BIGINT NULL,
  noted_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, job_id, attempt),
  KEY job_progress_noted (namespace, noted_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_line (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  attempt INT NOT NULL,
  number INT NOT NULL,
  level VARCHAR(16) NOT NULL,
  text LONGTEXT NOT NULL,
  said_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, job_id, attempt, number)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_schedule (
  namespace VARCHAR(191) NOT NULL,
  name VARCHAR(191) NOT NULL,
  version BIGINT NOT NULL,
  doc LONGTEXT NOT NULL,
  is_paused BOOLEAN NOT NULL,
  next_at BIGINT NULL,
  last_slot_at BIGINT NULL,
  last_fired_at BIGINT NULL,
  created_at BIGINT NOT NULL,
  due_at BIGINT AS (CASE WHEN is_paused THEN NULL ELSE next_at END) PERSISTENT,
  PRIMARY KEY (namespace, name),
  KEY job_schedule_due (namespace, due_at, name)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  ],
}
