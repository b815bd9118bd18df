import type { Migration } from '../../migration-plan.ts'

/**
 * Limits of queues, and what jobs wait for.
 *
 * Ready jobs without a limit key stand in the line they always stood in, and pay for nothing here but a NULL. Those with
 * one stand in two lines of their own: by kind, for a queue without limits, and by key. So a claim from a queue with
 * limits finds the first jobs of each key, and those without one, whatever stands in front of them. The key ends the
 * first two indexes so that whoever asks whether there is one need not fetch the row.
 */
export const gates: Migration = {
  number: 9,
  name: 'gates',
  statements: [
    'ALTER TABLE job_queue ADD COLUMN limit_key TEXT',
    'DROP INDEX job_queue_ready',
    `CREATE INDEX job_queue_ready
      ON job_queue (namespace, queue, kind, priority DESC, run_at, id, limit_key)
      WHERE state = 'ready' AND limit_key IS NULL`,
    `CREATE INDEX job_queue_keyed
      ON job_queue (namespace, queue, kind, priority DESC, run_at, id, limit_key)
      WHERE state = 'ready' AND limit_key IS NOT NULL`,
    `CREATE INDEX job_queue_limited
      ON job_queue (namespace, queue, limit_key, kind, priority DESC, run_at, id)
      WHERE state = 'ready' AND limit_key IS NOT NULL`,
    `CREATE INDEX job_queue_waiting ON job_queue (namespace, id, queue) WHERE state = 'waiting'`,
    'ALTER TABLE queue_control ADD COLUMN limits TEXT',
    // Behind which key the next claim goes on; null: at the first.
    'ALTER TABLE queue_control ADD COLUMN key_place TEXT',
    `CREATE TABLE job_rate (
      namespace TEXT NOT NULL,
      queue TEXT NOT NULL,
      limit_key TEXT NOT NULL,
      expires_at INTEGER NOT NULL,
      starts TEXT NOT NULL,
      PRIMARY KEY (namespace, queue, limit_key)
    ) STRICT, WITHOUT ROWID`,
    'CREATE INDEX job_rate_expiry ON job_rate (namespace, queue, expires_at)',
    `CREATE TABLE job_need (
      namespace TEXT NOT NULL,
      job_id TEXT NOT NULL,
      needs_id TEXT NOT NULL,
      is_met INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (namespace, job_id, needs_id)
    ) STRICT, WITHOUT ROWID`,
    'CREATE INDEX job_need_needed ON job_need (namespace, needs_id, job_id)',
    'CREATE INDEX job_need_unmet ON job_need (namespace, job_id, needs_id) WHERE is_met = 0',
    `CREATE TABLE job_lock (
      namespace TEXT NOT NULL,
      job_id TEXT NOT NULL,
      operation TEXT NOT NULL,
      resource TEXT NOT NULL,
      ask_no INTEGER NOT NULL DEFAULT 1,
      fence INTEGER,
      is_called INTEGER NOT NULL,
      tended_until INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (namespace, job_id)
    ) STRICT, WITHOUT ROWID`,
    'CREATE INDEX job_lock_tended ON job_lock (namespace, tended_until, job_id) WHERE is_called = 1',
  ],
}
