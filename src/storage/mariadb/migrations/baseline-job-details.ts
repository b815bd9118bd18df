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
  KEY job_dependency_unmet (namespace, is_met, job_id, dependency_id)
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
  KEY job_lock_tend (namespace, is_called, tended_until, job_id)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
