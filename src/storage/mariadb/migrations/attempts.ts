/**
 * Attempts that failed or were lost, and groups of their errors. `number` is the attempt's lease number, which rises with every
 * claim of a job, also after a retry. An attempt without a fingerprint is not counted in its group yet; the first rows of
 * `job_attempt_uncounted` are those.
 *
 * `job_block` has the times in which a job could not be claimed: number 0 is the wait for other jobs, any other number is the
 * request for its lock.
 */
export const attempts: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS job_attempt (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  number BIGINT NOT NULL,
  attempt INT NOT NULL,
  queue VARCHAR(191) NOT NULL,
  kind VARCHAR(191) NOT NULL,
  outcome VARCHAR(16) NOT NULL,
  worker_id VARCHAR(191) NULL,
  \`release\` VARCHAR(191) NULL,
  started_at BIGINT NULL,
  ended_at BIGINT NOT NULL,
  fingerprint VARCHAR(32) NULL,
  error LONGTEXT NOT NULL,
  PRIMARY KEY (namespace, job_id, number),
  KEY job_attempt_uncounted (namespace, fingerprint, job_id, number)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS job_error_group (
  namespace VARCHAR(191) NOT NULL,
  fingerprint VARCHAR(32) NOT NULL,
  kind VARCHAR(191) NOT NULL,
  attempt_count BIGINT NOT NULL,
  first_seen_at BIGINT NOT NULL,
  last_seen_at BIGINT NOT NULL,
  releases LONGTEXT NOT NULL,
  sample_jobs LONGTEXT NOT NULL,
  error LONGTEXT NOT NULL,
  PRIMARY KEY (namespace, fingerprint),
  KEY job_error_group_seen (namespace, last_seen_at, fingerprint)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS job_block (
  namespace VARCHAR(191) NOT NULL,
  job_id VARCHAR(64) NOT NULL,
  number BIGINT NOT NULL,
  cause VARCHAR(16) NOT NULL,
  started_at BIGINT NOT NULL,
  ended_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, job_id, number)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
