import { isOwn } from '../../own-queue.ts'

/**
 * Jobs as rows, and the limits of their queues. Every job that has not ended is one row of `job_queue`. A claim, a renewal and a
 * retry update the row. A job that ends moves to `job_history`, with its last lease.
 *
 *     job_queue ──claim──▶ state 'running' ──settle──▶ job_history
 *         ▲                      │
 *         └─── retry, reclaim ───┘
 *
 * Each live state has a partial index, so a job has two entries at any time: its key and its state.
 * `job_queue_ready` has two ranges for each queue: jobs without a limit key, and jobs with one. So a claim from a queue with limits
 * finds jobs without a key, however many jobs with a key come before them. `job_queue_limited` finds the first jobs of each key.
 *
 * `settled_tokens` lists the tokens of the last attempts whose verdict was written, so that each attempt can learn how it ended. A
 * running job may be locked by a user's transaction that ends it, so cancellation requests are in a table of their own, `job_cancel`.
 *
 * Partial indexes list by id what is rare among very many: jobs that wait for others, jobs that did not complete, and Signalbox's own
 * queues. The limits of a queue are in its row of `queue_control`; a claim from a queue with limits locks that row until the commit.
 */
export function jobs(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.job_queue (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  queue ${text} NOT NULL,
  kind ${text} NOT NULL,
  payload text NOT NULL,
  priority integer NOT NULL,
  unique_key ${text},
  state ${text} NOT NULL,
  attempt integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  hand_back_count integer NOT NULL DEFAULT 0,
  snooze_count integer NOT NULL DEFAULT 0,
  run_at bigint NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  started_at bigint,
  worker_id text,
  lease_no bigint NOT NULL DEFAULT 0,
  lease_nonce text,
  lease_ends_at bigint,
  settled_tokens text,
  backoff text,
  timeout_ms bigint,
  error text,
  meta text,
  limit_key ${text},
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX job_queue_ready
  ON ${s}.job_queue (namespace, queue, (limit_key IS NOT NULL), (-priority::bigint), run_at, id) WHERE state = 'ready'`,
    `CREATE INDEX job_queue_limited ON ${s}.job_queue (namespace, queue, limit_key, (-priority::bigint), run_at, id)
  WHERE state = 'ready' AND limit_key IS NOT NULL`,
    `CREATE INDEX job_queue_scheduled ON ${s}.job_queue (namespace, queue, run_at) WHERE state = 'scheduled'`,
    `CREATE INDEX job_queue_running ON ${s}.job_queue (namespace, queue, lease_ends_at) WHERE state = 'running'`,
    `CREATE INDEX job_queue_waiting ON ${s}.job_queue (namespace, id) WHERE state = 'waiting'`,
    `CREATE UNIQUE INDEX job_queue_unique ON ${s}.job_queue (namespace, queue, unique_key) WHERE unique_key IS NOT NULL`,
    `CREATE INDEX job_queue_own ON ${s}.job_queue (namespace, queue, id) WHERE ${isOwn('queue')}`,

    `CREATE TABLE ${s}.job_history (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  queue ${text} NOT NULL,
  kind ${text} NOT NULL,
  payload text NOT NULL,
  priority integer NOT NULL,
  unique_key ${text},
  state ${text} NOT NULL,
  attempt integer NOT NULL,
  max_attempts integer NOT NULL,
  hand_back_count integer NOT NULL,
  snooze_count integer NOT NULL,
  run_at bigint NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  finished_at bigint NOT NULL,
  worker_id text,
  lease_no bigint NOT NULL,
  lease_nonce text,
  settled_tokens text,
  backoff text,
  timeout_ms bigint,
  result text,
  error text,
  cancel_ignored boolean NOT NULL,
  meta text,
  limit_key ${text},
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX job_history_failed ON ${s}.job_history (namespace, state, queue, id) WHERE state <> 'completed'`,
    `CREATE INDEX job_history_unfinished ON ${s}.job_history (namespace, state, id) WHERE state <> 'completed'`,
    `CREATE INDEX job_history_own ON ${s}.job_history (namespace, queue, id) WHERE ${isOwn('queue')}`,

    `CREATE TABLE ${s}.job_cancel (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  lease_no bigint NOT NULL,
  PRIMARY KEY (namespace, job_id)
)`,
    `CREATE TABLE ${s}.queue_control (
  namespace ${text} NOT NULL,
  queue ${text} NOT NULL,
  paused_at bigint,
  limits text,
  key_position ${text},
  PRIMARY KEY (namespace, queue)
)`,
    `CREATE TABLE ${s}.job_rate (
  namespace ${text} NOT NULL,
  queue ${text} NOT NULL,
  limit_key ${text} NOT NULL,
  starts text NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (namespace, queue, limit_key)
)`,
    `CREATE INDEX job_rate_over ON ${s}.job_rate (namespace, queue, expires_at)`,
  ]
}

/**
 * What jobs wait for, what their attempts log, and schedules.
 *
 * `job_progress` has a row for each attempt that logged anything; its counters number the attempt's log lines and say how much
 * more fits. A transaction that adds to an attempt locks that row until the commit, so no number is given twice. Rows are
 * locked in one order: by job, then attempt.
 *
 * A fence is for one claim: `taken_fence` is the one that the job was last claimed with.
 */
export function jobDetails(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.job_progress (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  attempt integer NOT NULL,
  progress text,
  progress_at bigint,
  line_count integer NOT NULL,
  line_bytes integer NOT NULL,
  dropped_count bigint NOT NULL,
  dropped_at bigint,
  noted_at bigint NOT NULL,
  PRIMARY KEY (namespace, job_id, attempt)
)`,
    `CREATE INDEX job_progress_noted ON ${s}.job_progress (namespace, noted_at)`,
    `CREATE TABLE ${s}.job_log (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  attempt integer NOT NULL,
  number integer NOT NULL,
  level text NOT NULL,
  text text NOT NULL,
  logged_at bigint NOT NULL,
  PRIMARY KEY (namespace, job_id, attempt, number)
)`,

    `CREATE TABLE ${s}.job_schedule (
  namespace ${text} NOT NULL,
  name ${text} NOT NULL,
  version bigint NOT NULL,
  doc text NOT NULL,
  is_paused boolean NOT NULL,
  next_at bigint,
  last_slot_at bigint,
  last_fired_at bigint,
  created_at bigint NOT NULL,
  due_at bigint GENERATED ALWAYS AS (CASE WHEN is_paused THEN NULL ELSE next_at END) STORED,
  PRIMARY KEY (namespace, name)
)`,
    `CREATE INDEX job_schedule_due ON ${s}.job_schedule (namespace, due_at, name) WHERE due_at IS NOT NULL`,

    `CREATE TABLE ${s}.job_dependency (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  dependency_id ${text} NOT NULL,
  is_met boolean NOT NULL,
  PRIMARY KEY (namespace, job_id, dependency_id)
)`,
    `CREATE INDEX job_dependency_dependents ON ${s}.job_dependency (namespace, dependency_id, job_id)`,
    `CREATE INDEX job_dependency_unmet ON ${s}.job_dependency (namespace, job_id, dependency_id) WHERE NOT is_met`,
    `CREATE TABLE ${s}.job_lock (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  operation ${text} NOT NULL,
  resource ${text} NOT NULL,
  ask_no bigint NOT NULL,
  fence bigint,
  is_called boolean NOT NULL,
  tended_until bigint NOT NULL,
  taken_fence bigint,
  PRIMARY KEY (namespace, job_id)
)`,
    `CREATE INDEX job_lock_tended ON ${s}.job_lock (namespace, tended_until, job_id) WHERE is_called`,
  ]
}
