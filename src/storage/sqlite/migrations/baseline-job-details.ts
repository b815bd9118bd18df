/**
 * What jobs wait for, what their attempts log, and schedules. Progress and log lines are apart from the jobs, so that writing
 * them touches no row that a claim reads; an attempt's row counts its log lines. A text that may be large is the last column,
 * because SQLite reads through it to reach the columns behind it.
 *
 * A fence is for one claim: `taken_fence` is the one that the job was last claimed with.
 */
export const jobDetails: readonly string[] = [
  `CREATE TABLE job_progress (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    line_count INTEGER NOT NULL,
    line_bytes INTEGER NOT NULL,
    dropped_count INTEGER NOT NULL,
    dropped_at INTEGER,
    noted_at INTEGER NOT NULL,
    progress_at INTEGER,
    progress TEXT,
    PRIMARY KEY (namespace, job_id, attempt)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_progress_noted ON job_progress (namespace, noted_at, job_id)`,
  `CREATE TABLE job_log (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    number INTEGER NOT NULL,
    logged_at INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (namespace, job_id, attempt, number)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE job_schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    is_paused INTEGER NOT NULL,
    next_at INTEGER,
    last_slot_at INTEGER,
    last_fired_at INTEGER,
    created_at INTEGER NOT NULL,
    doc TEXT NOT NULL,
    due_at INTEGER AS (CASE WHEN is_paused THEN NULL ELSE next_at END) STORED,
    UNIQUE (namespace, name)
  ) STRICT`,
  `CREATE INDEX job_schedule_due ON job_schedule (namespace, due_at, name)`,
  `CREATE TABLE job_dependency (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    dependency_id TEXT NOT NULL,
    is_met INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, job_id, dependency_id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_dependency_dependents ON job_dependency (namespace, dependency_id, job_id)`,
  `CREATE INDEX job_dependency_unmet ON job_dependency (namespace, job_id, dependency_id) WHERE is_met = 0`,
  `CREATE TABLE job_lock (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    resource TEXT NOT NULL,
    ask_no INTEGER NOT NULL DEFAULT 1,
    fence INTEGER,
    is_called INTEGER NOT NULL,
    tended_until INTEGER NOT NULL DEFAULT 0,
    taken_fence INTEGER,
    PRIMARY KEY (namespace, job_id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_lock_tended ON job_lock (namespace, tended_until, job_id) WHERE is_called = 1`,
]
