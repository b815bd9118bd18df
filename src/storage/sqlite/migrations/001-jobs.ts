import type { Migration } from '../../migration-plan.ts'

/**
 * Jobs. The queue is a table with an integer key, because a job is written three times in its life and each of its
 * index entries ends in that key; the history is written once and read by id, so it is its own index.
 *
 * States are written by this engine alone and from a closed type, so no CHECK is paid for on every write.
 * Each live state has an index of its own rows only. Ready jobs stand in line by kind, so that a claim never walks
 * through kinds its worker does not know.
 */
export const jobs: Migration = {
  number: 1,
  name: 'jobs',
  statements: [
    `CREATE TABLE signalbox_meta (
      key TEXT NOT NULL PRIMARY KEY,
      value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID`,
    `INSERT INTO signalbox_meta (key, value) VALUES ('store_id', lower(hex(randomblob(16))))`,
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
      free_count INTEGER NOT NULL DEFAULT 0,
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
      UNIQUE (namespace, id)
    ) STRICT`,
    `CREATE INDEX job_queue_ready
      ON job_queue (namespace, queue, kind, priority DESC, run_at, id) WHERE state = 'ready'`,
    `CREATE INDEX job_queue_scheduled ON job_queue (namespace, run_at, queue) WHERE state = 'scheduled'`,
    `CREATE INDEX job_queue_running ON job_queue (namespace, lease_ends_at) WHERE state = 'running'`,
    `CREATE UNIQUE INDEX job_queue_unique
      ON job_queue (namespace, queue, unique_key) WHERE unique_key IS NOT NULL`,
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
      free_count INTEGER NOT NULL,
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
      PRIMARY KEY (namespace, id)
    ) STRICT, WITHOUT ROWID`,
    `CREATE INDEX job_history_unfinished
      ON job_history (namespace, state, id, queue, kind) WHERE state <> 'completed'`,
    `CREATE TABLE job_cancel (
      namespace TEXT NOT NULL,
      job_id TEXT NOT NULL,
      lease_no INTEGER NOT NULL,
      PRIMARY KEY (namespace, job_id)
    ) STRICT, WITHOUT ROWID`,
    `CREATE TABLE queue_control (
      namespace TEXT NOT NULL,
      queue TEXT NOT NULL,
      paused_at INTEGER,
      PRIMARY KEY (namespace, queue)
    ) STRICT, WITHOUT ROWID`,
  ],
}
