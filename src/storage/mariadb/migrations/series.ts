/**
 * Counts and times of jobs in buckets of time. `series_part` has what each process counted in a minute that is still open,
 * `series_bucket` the closed steps, `series_total` all that was ever counted. A queue and a kind are too wide for an index
 * together, so rows are found by their SHA-256. `series_mark` says up to where longer steps are put together.
 */
const values = `queue VARCHAR(191) NOT NULL,
  kind VARCHAR(191) NOT NULL,
  added BIGINT NOT NULL,
  started BIGINT NOT NULL,
  completed BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  dead BIGINT NOT NULL,
  cancelled BIGINT NOT NULL,
  ready BIGINT NULL,
  running BIGINT NULL,
  run_times TEXT NOT NULL,
  wait_times TEXT NOT NULL`
const options = 'ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin'

export const series: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS series_part (
  namespace VARCHAR(191) NOT NULL,
  bucket_at BIGINT NOT NULL,
  source VARCHAR(64) NOT NULL,
  series_key VARCHAR(64) NOT NULL,
  ${values},
  PRIMARY KEY (namespace, bucket_at, source, series_key)
) ${options}`,
  `CREATE TABLE IF NOT EXISTS series_bucket (
  namespace VARCHAR(191) NOT NULL,
  step_ms BIGINT NOT NULL,
  bucket_at BIGINT NOT NULL,
  series_key VARCHAR(64) NOT NULL,
  ${values},
  PRIMARY KEY (namespace, step_ms, bucket_at, series_key)
) ${options}`,
  `CREATE TABLE IF NOT EXISTS series_total (
  namespace VARCHAR(191) NOT NULL,
  series_key VARCHAR(64) NOT NULL,
  ${values},
  PRIMARY KEY (namespace, series_key)
) ${options}`,
  `CREATE TABLE IF NOT EXISTS series_mark (
  namespace VARCHAR(191) NOT NULL PRIMARY KEY,
  tens_until BIGINT NOT NULL,
  hours_until BIGINT NOT NULL
) ${options}`,
]
