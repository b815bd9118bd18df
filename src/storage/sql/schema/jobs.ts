import { isOwn } from '../job-layout.ts'
import type { Table } from './table.ts'

const whenReady = (value: string) =>
  `AS (CASE WHEN limit_key IS NOT NULL AND state = 'ready' THEN ${value} END) PERSISTENT`

/**
 * Jobs as rows, and the limits of their queues. Every live job is a row of `job_queue`. A job that ends moves to
 * `job_history`, with its last lease.
 *
 *     job_queue ──claim──▶ state 'running' ──settle──▶ job_history
 *         ▲                      │
 *         └─── retry, reclaim ───┘
 *
 * On Postgres and SQLite each live state has a partial index. Ready jobs with and without a limit key have separate
 * indexes. So a claim from a queue with limits finds jobs without a key, however many jobs with a key come first, and
 * `job_queue_limited` finds the first jobs of each key. SQLite orders ready jobs by kind, so that a claim never reads
 * past kinds that its worker does not know. There the limit key ends the index, so that a claim reads it without the
 * row. Indexes `…_own` list the jobs of Signalbox's own queues.
 *
 * MariaDB has no partial indexes. Its `job_queue_order` serves every search in `job_queue` except the search by limit
 * key: `sort_rank`, `sort_at` are (−priority, run_at) of ready jobs, (0, run_at) of scheduled ones and (0,
 * lease_ends_at) of running ones. So a claim, the promotion of due jobs and the search for expired leases are each one
 * range of it. `kind` and `limit_ready` end the index, so that a claim can skip jobs without reading their rows. The
 * states are listed in the order in which they should follow each other in that index. A search that finds nothing
 * continues over deleted but not yet purged entries into the next state's, and after `scheduled` there are hardly any.
 * `job_queue_limit` reads ready jobs by limit key. For a job without a key, all columns of this index that could change
 * are NULL, so that only its insert and its delete write an entry. `limit_kind` stands for the kind, which does not fit
 * into the key: the widest index has 2,600 bytes of the 3,072 allowed. Generated columns are stored, because purging
 * entries of indexed virtual columns computes them again. `room` is blank and reserves space in the row: otherwise a
 * claim, which writes the worker's name and the lease, would make every row grow and split its page. `job_history_list`
 * and `job_dead` list the ended jobs that are rare among very many.
 *
 * `settled_tokens` lists the tokens of the last settled attempts, so that each attempt can learn its verdict. A user's
 * transaction may lock a running job, so cancellation requests have a separate table, `job_cancel`. The limits of a
 * queue are in the row of its pause, so that a claim skips both kinds of queue with one look-up. `key_position` is the
 * key after which the next claim continues. On MariaDB `job_rate.started_at` is the last start, not an end.
 */
export const jobs: readonly Table[] = [
  {
    name: 'job_queue',
    columns: `
      namespace name, id name(64), queue name, kind name, payload text, priority int, unique_key name?,
      [postgres sqlite] state name, [mariadb] state enum(ready|waiting|running|scheduled),
      attempt int = 0, max_attempts int, hand_back_count int = 0, snooze_count int = 0,
      run_at big, created_at big, updated_at big, started_at big?,
      [mariadb] room VARCHAR(80) NOT NULL DEFAULT '${' '.repeat(80)}',
      worker_id text(191)?, lease_no big = 0, lease_nonce text(16)?, lease_ends_at big?,
      backoff text(short)?, timeout_ms big?, error text?,
      [sqlite] settled_tokens text = '', [postgres mariadb] settled_tokens text(short)?, meta text?,
      [postgres sqlite] limit_key name?,
      [mariadb] limit_key VARCHAR(191) AS (CASE WHEN NOT JSON_VALID(meta) THEN NULL
        WHEN JSON_TYPE(JSON_EXTRACT(meta, '$.limitKey')) = 'STRING' THEN NULLIF(JSON_VALUE(meta, '$.limitKey'), '') END)
        PERSISTENT,
      [mariadb] sort_rank BIGINT AS (CASE WHEN state = 'ready' THEN -CAST(priority AS SIGNED) ELSE 0 END) PERSISTENT,
      [mariadb] sort_at BIGINT AS (CASE WHEN state = 'running' THEN lease_ends_at ELSE run_at END) PERSISTENT,
      [mariadb] limit_ready TINYINT AS (CASE WHEN limit_key IS NOT NULL THEN IF(state = 'ready', 1, 0) END) PERSISTENT,
      [mariadb] limit_rank BIGINT ${whenReady('-CAST(priority AS SIGNED)')},
      [mariadb] limit_at BIGINT ${whenReady('run_at')},
      [mariadb] limit_kind INT UNSIGNED ${whenReady('CRC32(kind)')}`,
    key: 'namespace, id',
    sqliteNumber: 'rowid',
    indexes: `
      [mariadb] unique job_queue_unique (namespace, queue, unique_key)
      [mariadb] job_queue_order (namespace, queue, state, sort_rank, sort_at, id, kind, limit_ready)
      [mariadb] job_queue_limit (namespace, queue, limit_ready, limit_key, limit_rank, limit_at, id, limit_kind)
      [postgres] job_queue_ready (namespace, queue, (limit_key IS NOT NULL), (-priority::bigint), run_at, id) WHERE state = 'ready'
      [postgres] job_queue_limited (namespace, queue, limit_key, (-priority::bigint), run_at, id) WHERE state = 'ready' AND limit_key IS NOT NULL
      [sqlite] job_queue_ready (namespace, queue, kind, priority DESC, run_at, id, limit_key) WHERE state = 'ready' AND limit_key IS NULL
      [sqlite] job_queue_keyed (namespace, queue, kind, priority DESC, run_at, id, limit_key) WHERE state = 'ready' AND limit_key IS NOT NULL
      [sqlite] job_queue_limited (namespace, queue, limit_key, kind, priority DESC, run_at, id) WHERE state = 'ready' AND limit_key IS NOT NULL
      [postgres] job_queue_scheduled (namespace, queue, run_at) WHERE state = 'scheduled'
      [sqlite] job_queue_scheduled (namespace, run_at, queue) WHERE state = 'scheduled'
      [postgres] job_queue_running (namespace, queue, lease_ends_at) WHERE state = 'running'
      [sqlite] job_queue_running (namespace, lease_ends_at) WHERE state = 'running'
      [postgres] job_queue_waiting (namespace, id) WHERE state = 'waiting'
      [sqlite] job_queue_waiting (namespace, id, queue) WHERE state = 'waiting'
      [postgres sqlite] unique job_queue_unique (namespace, queue, unique_key) WHERE unique_key IS NOT NULL
      [postgres sqlite] job_queue_own (namespace, queue, id) WHERE ${isOwn('queue')}`,
  },
  {
    name: 'job_history',
    columns: `
      namespace name, id name(64), queue name, kind name, payload text, priority int, unique_key name?,
      [postgres sqlite] state name, [mariadb] state enum(completed|dead|cancelled),
      attempt int, max_attempts int, hand_back_count int, snooze_count int,
      run_at big, created_at big, started_at big?, finished_at big, worker_id text(191)?, lease_no big,
      lease_nonce text(16)?, backoff text(short)?, timeout_ms big?, result text?, error text?,
      cancel_ignored bool [mariadb] = FALSE,
      [sqlite] settled_tokens text, [postgres mariadb] settled_tokens text(short)?, meta text?,
      [postgres] limit_key name?`,
    key: 'namespace, id',
    indexes: `
      [mariadb] job_history_list (namespace, state, queue, id)
      [postgres] job_history_failed (namespace, state, queue, id) WHERE state <> 'completed'
      [postgres] job_history_unfinished (namespace, state, id) WHERE state <> 'completed'
      [sqlite] job_history_unfinished (namespace, state, id, queue, kind) WHERE state <> 'completed'
      [postgres sqlite] job_history_own (namespace, queue, id) WHERE ${isOwn('queue')}`,
  },
  {
    name: 'job_dead',
    only: ['mariadb'],
    columns: 'namespace name, queue name, id name(64), kind name',
    key: 'namespace, queue, id',
  },
  { name: 'job_cancel', columns: 'namespace name, job_id name(64), lease_no big', key: 'namespace, job_id' },
  {
    name: 'queue_control',
    columns: 'namespace name, queue name, paused_at big?, limits text(short)?, key_position name?',
    key: 'namespace, queue',
  },
  {
    name: 'job_rate',
    columns: `
      namespace name, queue name, limit_key name, [postgres sqlite] expires_at big, [mariadb] started_at big,
      starts text(short)`,
    key: 'namespace, queue, limit_key',
    indexes: `
      [postgres] job_rate_over (namespace, queue, expires_at)
      [sqlite] job_rate_expiry (namespace, queue, expires_at)`,
  },
]

/**
 * What jobs wait for, the logs of their attempts, and schedules. A text that may be large is the last column, because
 * SQLite reads through it to reach later columns.
 *
 * `job_progress` has a row for each attempt that logged anything. Its counters number the attempt's log lines and show
 * how much more fits. A transaction that adds to an attempt locks that row until the commit, so no number is used
 * twice. Rows are locked in one order: by job, then attempt.
 *
 * `due_at` is null while a schedule is paused, so the due schedules of a namespace are one range of an index. A fence
 * is for one claim: `taken_fence` is the fence of the job's last claim.
 */
export const jobDetails: readonly Table[] = [
  {
    name: 'job_progress',
    columns: `
      namespace name, job_id name(64), attempt int, line_count int [mariadb] = 0, line_bytes int [mariadb] = 0,
      dropped_count big [mariadb] = 0, dropped_at big?, noted_at big, progress_at big?, progress text?`,
    key: 'namespace, job_id, attempt',
    indexes: `
      [postgres mariadb] job_progress_noted (namespace, noted_at)
      [sqlite] job_progress_noted (namespace, noted_at, job_id)`,
  },
  {
    name: 'job_log',
    columns: `
      namespace name, job_id name(64), attempt int, number int, logged_at big, level text(16), text text`,
    key: 'namespace, job_id, attempt, number',
  },
  {
    name: 'job_schedule',
    columns: `
      namespace name, name name, version big, is_paused bool, next_at big?, last_slot_at big?, last_fired_at big?,
      created_at big, doc text, due_at big as (CASE WHEN is_paused THEN NULL ELSE next_at END)`,
    key: 'namespace, name',
    sqliteNumber: 'rowid',
    indexes: `
      [mariadb sqlite] job_schedule_due (namespace, due_at, name)
      [postgres] job_schedule_due (namespace, due_at, name) WHERE due_at IS NOT NULL`,
  },
  {
    name: 'job_dependency',
    columns: `
      namespace name, job_id name(64), dependency_id name(64), is_met bool [mariadb sqlite] = FALSE`,
    key: 'namespace, job_id, dependency_id',
    indexes: `
      job_dependency_dependents (namespace, dependency_id, job_id)
      [postgres] job_dependency_unmet (namespace, job_id, dependency_id) WHERE NOT is_met
      [mariadb] job_dependency_unmet (is_met, namespace, job_id, dependency_id)
      [sqlite] job_dependency_unmet (namespace, job_id, dependency_id) WHERE is_met = FALSE`,
  },
  {
    name: 'job_lock',
    columns: `
      namespace name, job_id name(64), operation name, resource name, ask_no big [mariadb sqlite] = 1, fence big?,
      is_called bool, tended_until big [mariadb sqlite] = 0, taken_fence big?`,
    key: 'namespace, job_id',
    indexes: `
      [postgres] job_lock_tended (namespace, tended_until, job_id) WHERE is_called
      [mariadb] job_lock_tended (is_called, namespace, tended_until, job_id)
      [sqlite] job_lock_tended (namespace, tended_until, job_id) WHERE is_called = TRUE`,
  },
]
