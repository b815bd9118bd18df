import { isOwn } from '../../own-queue.ts'

/**
 * Jobs and the limits of their queues. `job_queue` has an integer key, because a job is written three times in its life and
 * each of its index entries ends in that key. `job_history` is written once and read by id, so it is its own index.
 *
 * Only this engine writes states, and from a closed type, so there is no CHECK that every write would pay for. Each live
 * state has its own partial index.
 *
 * Ready jobs are ordered by kind, so that a claim never reads past kinds that its worker does not know. Jobs without a limit
 * key are in `job_queue_ready` and pay nothing for limits but a NULL. Jobs with a key are in two indexes: `job_queue_keyed`
 * by kind, for a queue without limits, and `job_queue_limited` by key. So a claim from a queue with limits finds the first
 * jobs of each key, and those without a key, wherever they are in the order. The key ends the first two indexes, so that
 * reading it does not fetch the row.
 *
 * Jobs of Signalbox's own queues have separate indexes (`job_queue_own`, `job_history_own`), for lists by id.
 */
export const jobs: readonly string[] = [
  `CREATE TABLE job_queue (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL,
    unique_key TEXT,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    hand_back_count INTEGER NOT NULL DEFAULT 0,
    snooze_count INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    worker_id TEXT,
    lease_no INTEGER NOT NULL DEFAULT 0,
    lease_nonce TEXT,
    lease_ends_at INTEGER,
    backoff TEXT,
    timeout_ms INTEGER,
    error TEXT,
    settled_tokens TEXT NOT NULL DEFAULT '',
    meta TEXT,
    limit_key TEXT,
    UNIQUE (namespace, id)
  ) STRICT`,
  `CREATE INDEX job_queue_ready
    ON job_queue (namespace, queue, kind, priority DESC, run_at, id, limit_key)
    WHERE state = 'ready' AND limit_key IS NULL`,
  `CREATE INDEX job_queue_keyed
    ON job_queue (namespace, queue, kind, priority DESC, run_at, id, limit_key)
    WHERE state = 'ready' AND limit_key IS NOT NULL`,
  `CREATE INDEX job_queue_limited
    ON job_queue (namespace, queue, limit_key, kind, priority DESC, run_at, id)
    WHERE state = 'ready' AND limit_key IS NOT NULL`,
  `CREATE INDEX job_queue_scheduled ON job_queue (namespace, run_at, queue) WHERE state = 'scheduled'`,
  `CREATE INDEX job_queue_running ON job_queue (namespace, lease_ends_at) WHERE state = 'running'`,
  `CREATE INDEX job_queue_waiting ON job_queue (namespace, id, queue) WHERE state = 'waiting'`,
  `CREATE UNIQUE INDEX job_queue_unique
    ON job_queue (namespace, queue, unique_key) WHERE unique_key IS NOT NULL`,
  `CREATE INDEX job_queue_own ON job_queue (namespace, queue, id) WHERE ${isOwn('queue')}`,
  `CREATE TABLE job_history (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    priority INTEGER NOT NULL,
    unique_key TEXT,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    hand_back_count INTEGER NOT NULL,
    snooze_count INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER NOT NULL,
    worker_id TEXT,
    lease_no INTEGER NOT NULL,
    lease_nonce TEXT,
    backoff TEXT,
    timeout_ms INTEGER,
    result TEXT,
    error TEXT,
    cancel_ignored INTEGER NOT NULL,
    settled_tokens TEXT NOT NULL,
    meta TEXT,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_history_unfinished
    ON job_history (namespace, state, id, queue, kind) WHERE state <> 'completed'`,
  `CREATE INDEX job_history_own ON job_history (namespace, queue, id) WHERE ${isOwn('queue')}`,
  `CREATE TABLE job_cancel (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    lease_no INTEGER NOT NULL,
    PRIMARY KEY (namespace, job_id)
  ) STRICT, WITHOUT ROWID`,
  // `key_position` is the key behind which the next claim goes on; null: at the first key.
  `CREATE TABLE queue_control (
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    paused_at INTEGER,
    limits TEXT,
    key_position TEXT,
    PRIMARY KEY (namespace, queue)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE job_rate (
    namespace TEXT NOT NULL,
    queue TEXT NOT NULL,
    limit_key TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    starts TEXT NOT NULL,
    PRIMARY KEY (namespace, queue, limit_key)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_rate_expiry ON job_rate (namespace, queue, expires_at)`,
]

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
  `CREATE INDEX job_dependency_unmet ON job_dependency (namespace, job_id, dependency_id) WHERE is_met = FALSE`,
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
  `CREATE INDEX job_lock_tended ON job_lock (namespace, tended_until, job_id) WHERE is_called = TRUE`,
]
