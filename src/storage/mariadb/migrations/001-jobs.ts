import type { Migration } from '../../migration-plan.ts'

/**
 * Jobs as rows. Names and texts are utf8mb4 with a binary collation that does not pad, so 'Key', 'key' and 'Key '
 * are three keys; JSON values are kept as text, byte for byte.
 *
 * One secondary index serves everything that is looked for in `job_queue`, because it reads each state's rows in the
 * order that matters for it: `sort_rank`, `sort_at` are (−priority, run_at) of ready jobs, (0, run_at) of scheduled
 * ones and (0, lease_ends_at) of running ones. So a claim, the promotion of due jobs and the search for expired leases
 * are each one range of it, and a job's way through the table writes two index entries instead of four. `kind` is its
 * last column, so that jobs of kinds a worker does not know are passed over without reading their rows.
 *
 * The states stand in the order in which they should follow each other in that index: a search that finds nothing runs
 * on over entries that are dead but not yet purged, into the next state's; after `scheduled` come hardly any.
 *
 * `settled` lists the tokens of earlier attempts whose verdict was written, so that each can be told what became of it.
 *
 * `room` is blank and keeps the row's place: pages are filled to the brim as jobs are added, and a claim, which writes
 * the worker's name and the lease, would make every row grow and split its page. Instead it empties `room`. That makes
 * a claim's update a third cheaper and the later delete dearer: about 10 µs a job are left of it (measured).
 *
 * Ids rise with time, so the primary key appends. The widest index has 2,600 bytes of the 3,072 allowed.
 *
 * `job_dead` lists the dead jobs of the history by queue: an index there would be paid for by every completion.
 * `job_cancel` holds what was asked of running jobs: their rows may be locked by a user's transaction.
 */
export const jobsMigration: Migration = {
  number: 1,
  name: 'jobs',
  statements: [
    `CREATE TABLE IF NOT EXISTS signalbox_meta (
  name VARCHAR(64) NOT NULL PRIMARY KEY,
  value VARCHAR(191) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `INSERT IGNORE INTO signalbox_meta (name, value) VALUES ('store_id', UUID())`,
    `CREATE TABLE IF NOT EXISTS job_queue (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  queue VARCHAR(191) NOT NULL,
  kind VARCHAR(191) NOT NULL,
  payload LONGTEXT NOT NULL,
  priority INT NOT NULL,
  unique_key VARCHAR(191) NULL,
  state ENUM ('ready', 'waiting', 'running', 'scheduled') NOT NULL,
  attempt INT NOT NULL DEFAULT 0,
  max_attempts INT NOT NULL,
  free_count INT NOT NULL DEFAULT 0,
  run_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  started_at BIGINT NULL,
  room VARCHAR(80) NOT NULL DEFAULT '${' '.repeat(80)}',
  worker_id VARCHAR(191) NULL,
  lease_no BIGINT NOT NULL DEFAULT 0,
  lease_nonce VARCHAR(16) NULL,
  lease_ends_at BIGINT NULL,
  settled TEXT NULL,
  backoff TEXT NULL,
  timeout_ms BIGINT NULL,
  error LONGTEXT NULL,
  sort_rank BIGINT AS (CASE WHEN state = 'ready' THEN -CAST(priority AS SIGNED) ELSE 0 END) PERSISTENT,
  sort_at BIGINT AS (CASE WHEN state = 'running' THEN lease_ends_at ELSE run_at END) PERSISTENT,
  PRIMARY KEY (namespace, id),
  UNIQUE KEY job_queue_unique (namespace, queue, unique_key),
  KEY job_queue_order (namespace, queue, state, sort_rank, sort_at, id, kind)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_history (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  queue VARCHAR(191) NOT NULL,
  kind VARCHAR(191) NOT NULL,
  payload LONGTEXT NOT NULL,
  priority INT NOT NULL,
  unique_key VARCHAR(191) NULL,
  state ENUM ('completed', 'dead', 'cancelled') NOT NULL,
  attempt INT NOT NULL,
  max_attempts INT NOT NULL,
  free_count INT NOT NULL,
  run_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  started_at BIGINT NULL,
  finished_at BIGINT NOT NULL,
  worker_id VARCHAR(191) NULL,
  lease_no BIGINT NOT NULL,
  lease_nonce VARCHAR(16) NULL,
  settled TEXT NULL,
  backoff TEXT NULL,
  timeout_ms BIGINT NULL,
  result LONGTEXT NULL,
  error LONGTEXT NULL,
  cancel_ignored BOOLEAN NOT NULL DEFAULT FALSE,
  PRIMARY KEY (namespace, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_dead (
  namespace VARCHAR(191) NOT NULL,
  queue VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  kind VARCHAR(191) NOT NULL,
  PRIMARY KEY (namespace, queue, id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_cancel (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  lease_no BIGINT NOT NULL,
  PRIMARY KEY (namespace, job_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS queue_control (
  namespace VARCHAR(191) NOT NULL,
  queue VARCHAR(191) NOT NULL,
  paused_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, queue)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  ],
}
