import { isOwn } from '../../own-queue.ts'
import { nowMs } from '../connection/columns.ts'

/**
 * Jobs on Postgres. Waiting ones are rows of `job_pending`, inserted and deleted but hardly ever updated. A claim moves up to
 * hundreds of them into ONE row of `job_lease`; how they end goes to `job_history`, or back.
 *
 *     job_pending ──claim──▶ job_lease.jobs[] ──settle──▶ job_history
 *          ▲                        │
 *          └──── retry, reclaim ────┘
 *
 * `baseline-job-functions.ts` says how leases end. Partial indexes list by id what is rare among very many: jobs that wait for
 * others, those that did not end well, and Signalbox's own queues. Jobs of other queues that are added, claimed and completed
 * have no entry in any of them.
 *
 * The limits of a queue are in its row of `queue_control`; a claim from a queue that has limits locks that row until the
 * commit. `job_slot` counts its running jobs: such a claim writes slots beside its lease, and a slot counts while its lease is
 * live and has no `job_end` for its job, so a slot is never given back. Claims that were under way when the limits were set
 * wrote none; until `adopt_until` has passed, a claim looks for those. `limit_key` is computed by a trigger when a job comes
 * to wait, so that the statements that insert jobs need not know of it.
 */
export function jobs(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.job_pending (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  queue ${text} NOT NULL,
  kind ${text} NOT NULL,
  payload text NOT NULL,
  priority integer NOT NULL,
  unique_key ${text},
  state ${text} NOT NULL CHECK (state IN ('ready', 'scheduled', 'waiting')),
  attempt integer NOT NULL,
  max_attempts integer NOT NULL,
  hand_back_count integer NOT NULL,
  snooze_count integer NOT NULL,
  run_at bigint NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  started_at bigint,
  worker_id text,
  backoff text,
  timeout_ms bigint,
  result text,
  error text,
  meta text,
  limit_key ${text},
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX job_pending_ready ON ${s}.job_pending (namespace, queue, (-priority::bigint), run_at, id)
  WHERE state = 'ready'`,
    `CREATE INDEX job_pending_scheduled ON ${s}.job_pending (namespace, queue, run_at) WHERE state = 'scheduled'`,
    `CREATE INDEX job_pending_waiting ON ${s}.job_pending (namespace, id) WHERE state = 'waiting'`,
    `CREATE INDEX job_pending_keyed ON ${s}.job_pending (namespace, queue, limit_key, (-priority::bigint), run_at, id)
  WHERE state = 'ready' AND limit_key IS NOT NULL`,
    `CREATE INDEX job_pending_own ON ${s}.job_pending (namespace, queue, id) WHERE ${isOwn('queue')}`,

    `CREATE TYPE ${s}.leased_job AS (
  id ${text},
  queue ${text},
  kind ${text},
  payload text,
  priority integer,
  unique_key ${text},
  attempt integer,
  max_attempts integer,
  hand_back_count integer,
  snooze_count integer,
  run_at bigint,
  created_at bigint,
  backoff text,
  timeout_ms bigint,
  result text,
  error text,
  meta text
)`,
    `CREATE SEQUENCE ${s}.job_lease_no`,
    `CREATE TABLE ${s}.job_lease (
  lease_no bigint PRIMARY KEY,
  namespace ${text} NOT NULL,
  nonce text NOT NULL,
  worker_id text NOT NULL,
  claimed_at bigint NOT NULL,
  ends_at bigint NOT NULL,
  job_count integer NOT NULL,
  jobs ${s}.leased_job[] NOT NULL
)`,
    // It is written, read once and deleted; compressing it showed no gain.
    `ALTER TABLE ${s}.job_lease ALTER COLUMN jobs SET STORAGE EXTERNAL`,
    `CREATE INDEX job_lease_ends ON ${s}.job_lease (namespace, ends_at)`,

    // 'final' and 'expired' go with their lease; 'returned' (back to pending) stays for an hour, for `outcomes`.
    `CREATE TABLE ${s}.job_end (
  lease_no bigint NOT NULL,
  job_id ${text} NOT NULL,
  ended_at bigint NOT NULL,
  how text NOT NULL CHECK (how IN ('final', 'returned', 'expired')),
  PRIMARY KEY (lease_no, job_id)
)`,
    `CREATE INDEX job_end_returned ON ${s}.job_end (ended_at) WHERE how = 'returned'`,

    `CREATE TABLE ${s}.job_unique (
  namespace ${text} NOT NULL,
  queue ${text} NOT NULL,
  unique_key ${text} NOT NULL,
  job_id ${text} NOT NULL,
  PRIMARY KEY (namespace, queue, unique_key)
)`,
    `CREATE TABLE ${s}.job_cancel (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  lease_no bigint NOT NULL,
  asked_at bigint NOT NULL,
  PRIMARY KEY (namespace, job_id)
)`,
    `CREATE TABLE ${s}.job_history (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  queue ${text} NOT NULL,
  kind ${text} NOT NULL,
  payload text NOT NULL,
  priority integer NOT NULL,
  unique_key ${text},
  state ${text} NOT NULL CHECK (state IN ('completed', 'dead', 'cancelled')),
  attempt integer NOT NULL,
  max_attempts integer NOT NULL,
  hand_back_count integer NOT NULL,
  snooze_count integer NOT NULL,
  run_at bigint NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  finished_at bigint NOT NULL,
  worker_id text,
  lease_no bigint,
  backoff text,
  timeout_ms bigint,
  result text,
  error text,
  cancel_ignored boolean NOT NULL,
  meta text,
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX job_history_failed ON ${s}.job_history (namespace, state, queue, id) WHERE state <> 'completed'`,
    `CREATE INDEX job_history_unfinished ON ${s}.job_history (namespace, state, id) WHERE state <> 'completed'`,
    `CREATE INDEX job_history_own ON ${s}.job_history (namespace, queue, id) WHERE ${isOwn('queue')}`,

    `CREATE TABLE ${s}.queue_control (
  namespace ${text} NOT NULL,
  queue ${text} NOT NULL,
  paused_at bigint,
  limits text,
  is_counted boolean NOT NULL DEFAULT false,
  adopt_until bigint,
  key_position ${text},
  PRIMARY KEY (namespace, queue)
)`,
    `CREATE TABLE ${s}.job_slot (
  namespace ${text} NOT NULL,
  queue ${text} NOT NULL,
  lease_no bigint NOT NULL,
  job_id ${text} NOT NULL,
  limit_key ${text} NOT NULL,
  PRIMARY KEY (namespace, queue, lease_no, job_id)
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

    // OFFSET 0 keeps that subquery from becoming a join, which may be planned to read all of job_end.
    `CREATE VIEW ${s}.job_queue AS
SELECT p.namespace, p.id, p.queue, p.kind, p.payload, p.priority, p.unique_key,
       CASE WHEN p.state = 'scheduled' AND p.run_at <= ${nowMs} THEN 'ready' ELSE p.state END AS state,
       p.attempt, p.max_attempts, p.hand_back_count, p.snooze_count, p.run_at, p.created_at, p.updated_at, p.started_at,
       p.worker_id, NULL::bigint AS lease_no, NULL::bigint AS lease_ends_at, p.backoff, p.timeout_ms, p.result, p.error,
       false AS cancel_requested, p.meta
FROM ${s}.job_pending p
UNION ALL
SELECT l.namespace, j.id, j.queue, j.kind, j.payload, j.priority, j.unique_key,
       CASE WHEN l.ends_at > ${nowMs} THEN 'running'
            WHEN c.job_id IS NOT NULL THEN 'cancelled'
            WHEN j.attempt >= j.max_attempts THEN 'dead'
            ELSE 'ready' END,
       j.attempt, j.max_attempts, j.hand_back_count, j.snooze_count, j.run_at, j.created_at, l.claimed_at, l.claimed_at,
       l.worker_id, l.lease_no, l.ends_at, j.backoff, j.timeout_ms, j.result, j.error, c.job_id IS NOT NULL, j.meta
FROM ${s}.job_lease l
CROSS JOIN LATERAL unnest(l.jobs) j
LEFT JOIN ${s}.job_cancel c ON c.namespace = l.namespace AND c.job_id = j.id
WHERE NOT EXISTS (SELECT FROM ${s}.job_end e WHERE e.lease_no = l.lease_no AND e.job_id = j.id OFFSET 0)`,

    // Meta that is not JSON, or that no text of Postgres can hold, has no key.
    `CREATE FUNCTION ${s}.signalbox_limit_key(meta text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  given jsonb;
BEGIN
  given := meta::jsonb -> 'limitKey';
  RETURN CASE WHEN jsonb_typeof(given) = 'string' THEN nullif(given #>> '{}', '') END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$`,
    // Not a generated column, which would make adding a job without a key a tenth slower.
    `CREATE FUNCTION ${s}.signalbox_note_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.limit_key := ${s}.signalbox_limit_key(NEW.meta);
  RETURN NEW;
END $$`,
    `CREATE TRIGGER signalbox_note_key BEFORE INSERT ON ${s}.job_pending
  FOR EACH ROW WHEN (NEW.meta LIKE '%"limitKey"%') EXECUTE FUNCTION ${s}.signalbox_note_key()`,
  ]
}
