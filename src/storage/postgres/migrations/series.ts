/**
 * Counts and times of jobs in buckets of time. `series_part` has what each process counted in a minute that is still open,
 * `series_bucket` the closed steps, `series_total` all that was ever counted. A queue and a kind may be too wide for an
 * index together, so rows are found by their SHA-256. `series_mark` says up to where longer steps are put together.
 */
export function series(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  const values = `queue ${text} NOT NULL,
  kind ${text} NOT NULL,
  added bigint NOT NULL,
  started bigint NOT NULL,
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  dead bigint NOT NULL,
  cancelled bigint NOT NULL,
  ready bigint,
  running bigint,
  run_times text NOT NULL,
  wait_times text NOT NULL`
  return [
    `CREATE TABLE ${s}.series_part (
  namespace ${text} NOT NULL,
  bucket_at bigint NOT NULL,
  source ${text} NOT NULL,
  series_key ${text} NOT NULL,
  ${values},
  PRIMARY KEY (namespace, bucket_at, source, series_key)
)`,
    `CREATE TABLE ${s}.series_bucket (
  namespace ${text} NOT NULL,
  step_ms bigint NOT NULL,
  bucket_at bigint NOT NULL,
  series_key ${text} NOT NULL,
  ${values},
  PRIMARY KEY (namespace, step_ms, bucket_at, series_key)
)`,
    `CREATE TABLE ${s}.series_total (
  namespace ${text} NOT NULL,
  series_key ${text} NOT NULL,
  ${values},
  PRIMARY KEY (namespace, series_key)
)`,
    `CREATE TABLE ${s}.series_mark (
  namespace ${text} NOT NULL PRIMARY KEY,
  tens_until bigint NOT NULL,
  hours_until bigint NOT NULL
)`,
  ]
}
