/**
 * Attempts that failed or were lost, and groups of their errors. `number` is the attempt's lease number, which rises with every
 * claim of a job, also after a retry. An attempt without a fingerprint is not counted in its group yet; the partial index
 * lists those.
 *
 * `job_block` has the times in which a job could not be claimed: number 0 is the wait for other jobs, any other number is the
 * request for its lock.
 */
export const attempts: readonly string[] = [
  `CREATE TABLE job_attempt (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    outcome TEXT NOT NULL,
    worker_id TEXT,
    release TEXT,
    started_at INTEGER,
    ended_at INTEGER NOT NULL,
    fingerprint TEXT,
    error TEXT NOT NULL,
    PRIMARY KEY (namespace, job_id, number)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_attempt_uncounted ON job_attempt (namespace, job_id, number) WHERE fingerprint IS NULL`,
  `CREATE TABLE job_error_group (
    namespace TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempt_count INTEGER NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    releases TEXT NOT NULL,
    sample_jobs TEXT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (namespace, fingerprint)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX job_error_group_seen ON job_error_group (namespace, last_seen_at, fingerprint)`,
  `CREATE TABLE job_block (
    namespace TEXT NOT NULL,
    job_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    cause TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, job_id, number)
  ) STRICT, WITHOUT ROWID`,
]
