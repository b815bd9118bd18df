const whenReady = (value: string) =>
  `AS (CASE WHEN limit_key IS NOT NULL AND state = 'ready' THEN ${value} END) PERSISTENT`

/**
 * Jobs as rows, and the limits of their queues. Names and texts are utf8mb4 with a binary collation that does not pad, so
 * 'Key', 'key' and 'Key ' are three keys; JSON values are kept as text, byte for byte.
 *
 * `job_queue_order` serves every search in `job_queue` but that by limit key, because it reads each state's rows in the order
 * that matters for it: `sort_rank`, `sort_at` are (−priority, run_at) of ready jobs, (0, run_at) of scheduled ones and
 * (0, lease_ends_at) of running ones. So a claim, the promotion of due jobs and the search for expired leases are each one
 * range of it, and a job's way through the table writes two index entries instead of four. `kind` comes last but one, to
 * skip jobs of kinds that a worker does not know without reading their rows.
 *
 * The states are listed in the order in which they should follow each other in that index: a search that finds nothing runs
 * on over entries that are dead but not yet purged, into the next state's; after `scheduled` come hardly any.
 *
 * `job_queue_limit` reads the ready jobs of a queue by limit key, in the order of claims. MariaDB has no partial indexes, so
 * every job has an entry in it; but for a job without a key all of it that could change is NULL, so that only its insert and
 * its delete write one, and no claim, renewal or retry (the cost was not measurable in add, claim and ack together).
 * `limit_ready` sorts, in this order: jobs without a key, those that are not ready, those that are. It also ends
 * `job_queue_order`, to skip the jobs with keys there. `limit_kind` skips jobs of other kinds without reading their rows; the
 * name itself would not fit into the key, which has 2,590 bytes of the 3,072 allowed. The columns are stored, not virtual:
 * purging the entries of indexed virtual columns means computing them once more.
 *
 * `settled_tokens` lists the tokens of earlier attempts whose verdict was written, so that each attempt can learn how it ended.
 *
 * `room` is blank and reserves space in the row: pages are filled completely as jobs are added, and a claim, which writes the
 * worker's name and the lease, would make every row grow and split its page. Instead it empties `room`. That makes a claim's
 * update a third cheaper and the later delete dearer: about 10 µs a job remain (measured).
 *
 * Ids rise with time, so the primary key appends. The widest index has 2,600 bytes of the 3,072 allowed.
 *
 * `job_history_list` lists by id the ended jobs that are rare among very many: cancelled ones, and those of Signalbox's own
 * queues. Every job that ends has an entry, the last of its state and queue; the cost was not measurable. `job_dead` lists the
 * dead jobs of the history by queue. `job_cancel` holds the cancellation requests of running jobs, because their rows may be
 * locked by a user's transaction.
 *
 * The limits of a queue are in the same row as its pause, so that the ordinary claim skips both kinds of queue by one look.
 * `key_position` is where the next claim goes on in a queue with more keys than one claim reads.
 */
export const jobs: readonly string[] = [
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
  hand_back_count INT NOT NULL DEFAULT 0,
  snooze_count INT NOT NULL DEFAULT 0,
  run_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  started_at BIGINT NULL,
  room VARCHAR(80) NOT NULL DEFAULT '${' '.repeat(80)}',
  worker_id VARCHAR(191) NULL,
  lease_no BIGINT NOT NULL DEFAULT 0,
  lease_nonce VARCHAR(16) NULL,
  lease_ends_at BIGINT NULL,
  settled_tokens TEXT NULL,
  backoff TEXT NULL,
  timeout_ms BIGINT NULL,
  error LONGTEXT NULL,
  sort_rank BIGINT AS (CASE WHEN state = 'ready' THEN -CAST(priority AS SIGNED) ELSE 0 END) PERSISTENT,
  sort_at BIGINT AS (CASE WHEN state = 'running' THEN lease_ends_at ELSE run_at END) PERSISTENT,
  meta LONGTEXT NULL,
  limit_key VARCHAR(191) AS (
    CASE WHEN NOT JSON_VALID(meta) THEN NULL
      WHEN JSON_TYPE(JSON_EXTRACT(meta, '$.limitKey')) = 'STRING' THEN NULLIF(JSON_VALUE(meta, '$.limitKey'), '') END) PERSISTENT,
  limit_ready TINYINT AS (CASE WHEN limit_key IS NOT NULL THEN IF(state = 'ready', 1, 0) END) PERSISTENT,
  limit_rank BIGINT ${whenReady('-CAST(priority AS SIGNED)')},
  limit_at BIGINT ${whenReady('run_at')},
  limit_kind INT UNSIGNED ${whenReady('CRC32(kind)')},
  PRIMARY KEY (namespace, id),
  UNIQUE KEY job_queue_unique (namespace, queue, unique_key),
  KEY job_queue_order (namespace, queue, state, sort_rank, sort_at, id, kind, limit_ready),
  KEY job_queue_limit (namespace, queue, limit_ready, limit_key, limit_rank, limit_at, id, limit_kind)
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
  hand_back_count INT NOT NULL,
  snooze_count INT NOT NULL,
  run_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  started_at BIGINT NULL,
  finished_at BIGINT NOT NULL,
  worker_id VARCHAR(191) NULL,
  lease_no BIGINT NOT NULL,
  lease_nonce VARCHAR(16) NULL,
  settled_tokens TEXT NULL,
  backoff TEXT NULL,
  timeout_ms BIGINT NULL,
  result LONGTEXT NULL,
  error LONGTEXT NULL,
  cancel_ignored BOOLEAN NOT NULL DEFAULT FALSE,
  meta LONGTEXT NULL,
  PRIMARY KEY (namespace, id),
  KEY job_history_list (namespace, state, queue, id)
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
  paused_at BIGINT NULL,
  limits TEXT NULL,
  key_position VARCHAR(191) NULL,
  PRIMARY KEY (namespace, queue)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS job_rate (
  namespace VARCHAR(191) NOT NULL,
  queue VARCHAR(191) NOT NULL,
  limit_key VARCHAR(191) NOT NULL,
  starts TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, queue, limit_key)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]

/**
 * What jobs wait for, what their attempts log, and schedules.
 *
 * `job_progress` has a row for each attempt that logged anything; its counters number the attempt's log lines and say how much
 * more fits. A transaction that adds to an attempt locks that row until the commit, so no number is given twice. Rows are
 * locked in one order: by job, then attempt.
 *
 * The due schedules of a namespace are one range of an index: `due_at` is empty while a schedule is paused. The widest
 * key has 1,540 bytes of the 3,072 allowed.
 *
 * A fence is for one claim: `taken_fence` is the one that the job was last claimed with.
 */
export const jobDetails: readonly string[] = [
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
  `CREATE TABLE IF NOT EXISTS job_log (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  attempt INT NOT NULL,
  number INT NOT NULL,
  level VARCHAR(16) NOT NULL,
  text LONGTEXT NOT NULL,
  logged_at BIGINT NOT NULL,
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
  `CREATE TABLE IF NOT EXISTS job_dependency (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  dependency_id VARCHAR(64) NOT NULL,
  is_met BOOLEAN NOT NULL DEFAULT FALSE,
  PRIMARY KEY (namespace, job_id, dependency_id),
  KEY job_dependency_dependents (namespace, dependency_id, job_id),
  KEY job_dependency_unmet (is_met, namespace, job_id, dependency_id)
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
  taken_fence BIGINT NULL,
  PRIMARY KEY (namespace, job_id),
  KEY job_lock_tended (is_called, namespace, tended_until, job_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
