import type { Migration } from '../../migration-plan.ts'

/**
 * Limits of queues, and what jobs wait for.
 *
 * The limits of a queue stand where its pause does, so that the ordinary claim leaves both kinds of queue out by one
 * look. `next_key` is where the next claim goes on through a queue with more keys than one claim looks at.
 *
 * `job_queue_limit` reads the ready jobs of a queue by key, in the order of claims. MariaDB has no partial indexes, so
 * every job has an entry in it; but for a job without a key all of it that could change is NULL, so that only its insert
 * and its delete write one, and no claim, renewal or retry (it could not be told from none in the time of add, claim and
 * ack together). `limit_ready` tells apart, in this order: jobs without a key, those that are not ready, those that are.
 * It also stands at the end of `job_queue_order`, to pass over the jobs with keys in there.
 * `limit_kind` passes over jobs of other kinds without reading their rows; the name itself would not fit into the key,
 * which has 2,590 bytes of the 3,072 allowed. The columns are kept and not virtual: purging the entries of indexed virtual
 * ones means computing them once more.
 */
const whenReady = (value: string) =>
  `AS (CASE WHEN limit_key IS NOT NULL AND state = 'ready' THEN ${value} END) PERSISTENT`

export const gatesMigration: Migration = {
  number: 9,
  name: 'gates',
  statements: [
    `ALTER TABLE queue_control
  MODIFY COLUMN paused_at BIGINT NULL,
  ADD COLUMN IF NOT EXISTS limits TEXT NULL,
  ADD COLUMN IF NOT EXISTS next_key VARCHAR(191) NULL`,
    `ALTER TABLE job_queue
  ADD COLUMN IF NOT EXISTS limit_key VARCHAR(191) AS (
    CASE WHEN NOT JSON_VALID(meta) THEN NULL
      WHEN JSON_TYPE(JSON_EXTRACT(meta, '$.limitKey')) = 'STRING' THEN NULLIF(JSON_VALUE(meta, '$.limitKey'), '') END) PERSISTENT,
  ADD COLUMN IF NOT EXISTS limit_ready TINYINT AS (CASE WHEN limit_key IS NOT NULL THEN IF(state = 'ready', 1, 0) END) PERSISTENT,
  ADD COLUMN IF NOT EXISTS limit_rank BIGINT ${whenReady('-CAST(priority AS SIGNED)')},
  ADD COLUMN IF NOT EXISTS limit_at BIGINT ${whenReady('run_at')},
  ADD COLUMN IF NOT EXISTS limit_kind INT UNSIGNED ${whenReady('CRC32(kind)')},
  DROP KEY IF EXISTS job_queue_order,
  ADD KEY job_queue_order (namespace, queue, state, sort_rank, sort_at, id, kind, limit_ready),
  ADD KEY IF NOT EXISTS job_queue_limit (namespace, queue, limit_ready, limit_key, limit_rank, limit_at, id, limit_kind)`,
    `CREATE TABLE IF NOT EXISTS job_rate (
  namespace VARCHAR(191) NOT NULL,
  queue VARCHAR(191) NOT NULL,
  limit_key VARCHAR(191) NOT NULL,
  starts TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, queue, limit_key)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_need (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  needs_id VARCHAR(64) NOT NULL,
  is_met BOOLEAN NOT NULL DEFAULT FALSE,
  PRIMARY KEY (namespace, job_id, needs_id),
  KEY job_need_needs (namespace, needs_id, job_id),
  KEY job_need_unmet (namespace, is_met, job_id, needs_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
    `CREATE TABLE IF NOT EXISTS job_lock (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  operation VARCHAR(191) NOT NULL,
  resource VARCHAR(191) NOT NULL,
  ask_no BIGINT NOT NULL DEFAULT 1,
  fence BIGINT NULL,
  is_called BOOLEAN NOT NULL,
  tended_until BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (namespace, job_id),
  KEY job_lock_tend (namespace, is_called, tended_until, job_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  ],
}
