import type { Migration } from '../../migration-plan.ts'

/**
 * Words about a job, what its attempts say, and schedules. Progress and lines are apart from the jobs, so that writing
 * them touches no row that a claim reads; an attempt's row counts its lines. A text that may be large is the last column:
 * what stands behind it would be read through it.
 */
export const comfort: Migration = {
  number: 8,
  name: 'comfort',
  statements: [
    'ALTER TABLE job_queue ADD COLUMN meta TEXT',
    'ALTER TABLE job_history ADD COLUMN meta TEXT',
    `CREATE TABLE job_progress (
      namespace TEXT NOT NULL,
      job_id TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      line_count INTEGER NOT NULL,
      line_bytes INTEGER NOT NULL,
      dropped_count INTEGER NOT NULL,
      noted_at INTEGER NOT NULL,
      progress_at INTEGER,
      progress TEXT,
      PRIMARY KEY (namespace, job_id, attempt)
    ) STRICT, WITHOUT ROWID`,
    'CREATE INDEX job_progress_noted ON job_progress (namespace, noted_at, job_id)',
    `CREATE TABLE job_line (
      namespace TEXT NOT NULL,
      job_id TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      number INTEGER NOT NULL,
      at INTEGER NOT NULL,
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
      UNIQUE (namespace, name)
    ) STRICT`,
    `CREATE INDEX job_schedule_next ON job_schedule (namespace, next_at, name)
      WHERE is_paused = 0 AND next_at IS NOT NULL`,
  ],
}
