/**
 * Attempts that failed or were lost, and groups of their errors. `number` is the attempt's lease number, which rises with every
 * claim of a job, also after a retry. An attempt without a fingerprint is not counted in its group yet; the partial index
 * lists those.
 *
 * `job_block` has the times in which a job could not be claimed: number 0 is the wait for other jobs, any other number is the
 * request for its lock.
 */
export function attempts(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.job_attempt (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  number bigint NOT NULL,
  attempt integer NOT NULL,
  queue ${text} NOT NULL,
  kind ${text} NOT NULL,
  outcome ${text} NOT NULL,
  worker_id text,
  release text,
  started_at bigint,
  ended_at bigint NOT NULL,
  fingerprint ${text},
  error text NOT NULL,
  PRIMARY KEY (namespace, job_id, number)
)`,
    `CREATE INDEX job_attempt_uncounted ON ${s}.job_attempt (namespace, job_id, number) WHERE fingerprint IS NULL`,
    `CREATE TABLE ${s}.job_error_group (
  namespace ${text} NOT NULL,
  fingerprint ${text} NOT NULL,
  kind ${text} NOT NULL,
  attempt_count bigint NOT NULL,
  first_seen_at bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  releases text NOT NULL,
  sample_jobs text NOT NULL,
  error text NOT NULL,
  PRIMARY KEY (namespace, fingerprint)
)`,
    `CREATE INDEX job_error_group_seen ON ${s}.job_error_group (namespace, last_seen_at, fingerprint)`,
    `CREATE TABLE ${s}.job_block (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  number bigint NOT NULL,
  cause ${text} NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  PRIMARY KEY (namespace, job_id, number)
)`,
  ]
}
