/**
 * Counts and times of jobs in buckets of time. `series_part` has what each process counted in a minute that is still open,
 * `series_bucket` the closed steps, `series_total` all that was ever counted. A queue and a kind may be too wide for an
 * index together, so rows are found by their SHA-256. `series_mark` says up to where longer steps are put together.
 */
const values = `queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    added INTEGER NOT NULL,
    started INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    ready INTEGER,
    running INTEGER,
    run_times TEXT NOT NULL,
    wait_times TEXT NOT NULL`

export const series: readonly string[] = [
  `CREATE TABLE series_part (
    namespace TEXT NOT NULL,
    bucket_at INTEGER NOT NULL,
    source TEXT NOT NULL,
    series_key TEXT NOT NULL,
    ${values},
    PRIMARY KEY (namespace, bucket_at, source, series_key)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE series_bucket (
    namespace TEXT NOT NULL,
    step_ms INTEGER NOT NULL,
    bucket_at INTEGER NOT NULL,
    series_key TEXT NOT NULL,
    ${values},
    PRIMARY KEY (namespace, step_ms, bucket_at, series_key)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE series_total (
    namespace TEXT NOT NULL,
    series_key TEXT NOT NULL,
    ${values},
    PRIMARY KEY (namespace, series_key)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE series_mark (
    namespace TEXT NOT NULL PRIMARY KEY,
    tens_until INTEGER NOT NULL,
    hours_until INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
]
