import type { Table } from './table.ts'

/**
 * Workers as members of the fleet: one row with a lease each. `session` identifies one run of a worker, `boot` its
 * process. `running` has the ages of jobs at `seen_at`. Lists are JSON; the large `kind_schemas` comes last. Renewals
 * change no indexed column, and their row versions fit on the same page.
 */
const workers: Table = {
  name: 'fleet_worker',
  columns: `
    namespace name, id name, worker_id text(191), session text(64), boot text(64),
    [postgres sqlite] via text, [mariadb] via enum(library|remote|http), host text(191)?, pid big?,
    [postgres sqlite] mode text, [mariadb] mode enum(running|quiet|stopping),
    [postgres sqlite] wanted text, [mariadb] wanted enum(run|quiet|stop), wanted_grace_ms big?, concurrency int?,
    running_count int?, release_name text(191)?, version text(64)?, started_at big, seen_at big, lease_ends_at big,
    running text(medium), queues text(medium), kinds text(medium)?, kind_schemas text(medium)`,
  key: 'namespace, id',
  sqliteNumber: 'rowid',
  fillfactor: 50,
}

const counted = `queue name, kind name, added big, started big, completed big, failed big, dead big, cancelled big,
  ready big?, running big?, run_times text(short), wait_times text(short)`

/**
 * Counts and durations of jobs in time buckets. `series_part` has the counts of each process for a minute that is still
 * open, `series_bucket` the closed steps, `series_total` all counts ever. A queue and a kind together may be too wide
 * for an index, so rows are found by their SHA-256. `series_mark` is the time up to which smaller steps were merged
 * into longer ones.
 */
const series: readonly Table[] = [
  {
    name: 'series_part',
    columns: `namespace name, bucket_at big, source name(64), series_key name(64), ${counted}`,
    key: 'namespace, bucket_at, source, series_key',
  },
  {
    name: 'series_bucket',
    columns: `namespace name, step_ms big, bucket_at big, series_key name(64), ${counted}`,
    key: 'namespace, step_ms, bucket_at, series_key',
  },
  {
    name: 'series_total',
    columns: `namespace name, series_key name(64), ${counted}`,
    key: 'namespace, series_key',
  },
  { name: 'series_mark', columns: 'namespace name, tens_until big, hours_until big', key: 'namespace' },
]

/**
 * Attempts that failed or were lost, and the groups of their errors. `number` is the attempt's lease number, which
 * rises with every claim of a job, also after a retry. An attempt without a fingerprint is not counted in its group
 * yet; `job_attempt_uncounted` lists these attempts, on MariaDB as its first rows.
 *
 * `job_block` has the periods in which a job could not be claimed. Number 0 is the wait for other jobs; any other
 * number is the request for its lock.
 */
const attempts: readonly Table[] = [
  {
    name: 'job_attempt',
    columns: `
      namespace name, job_id name(64), number big, attempt int, queue name, kind name, outcome name(16),
      worker_id text(191)?, release text(191)?, started_at big?, ended_at big, fingerprint name(32)?, error text`,
    key: 'namespace, job_id, number',
    indexes: `
      [mariadb] job_attempt_uncounted (namespace, fingerprint, job_id, number)
      [postgres sqlite] job_attempt_uncounted (namespace, job_id, number) WHERE fingerprint IS NULL`,
  },
  {
    name: 'job_error_group',
    columns: `
      namespace name, fingerprint name(32), kind name, attempt_count big, first_seen_at big, last_seen_at big,
      releases text, sample_jobs text, error text`,
    key: 'namespace, fingerprint',
    indexes: 'job_error_group_seen (namespace, last_seen_at, fingerprint)',
  },
  {
    name: 'job_block',
    columns: 'namespace name, job_id name(64), number big, cause name(16), started_at big, ended_at big',
    key: 'namespace, job_id, number',
  },
]

export const fleet: readonly Table[] = [workers, ...series, ...attempts]
