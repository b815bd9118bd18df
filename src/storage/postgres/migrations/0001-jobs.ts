import type { Migration } from '../../migration-plan.ts'

/**
 * Jobs on Postgres. Those that wait are rows of `job_pending`, inserted and deleted but hardly ever updated. A claim
 * moves up to hundreds of them into ONE row of `job_lease`; how they end goes to `job_history`, or back.
 *
 *     job_pending ──claim──▶ job_lease.jobs[] ──settle──▶ job_history
 *          ▲                        │
 *          └──── retry, reclaim ────┘
 *
 * The fence is `job_end`: whoever ends one job of a lease inserts its key (lease, job), so only one can. It does so
 * holding the lease's advisory lock shared, taken before it looks whether the lease is live and kept until it commits.
 * Who ends a lease as a whole takes that lock exclusively or not at all; having it, nobody is between looking and
 * writing, so the row and its `job_end` rows can go, and who comes later finds no lease. The functions below exist
 * because of this order: each statement in them sees what was committed before it, also after waiting for a lock.
 */
export function jobs(s: string): Migration {
  const nowMs = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
  const lock = (fn: string, no: string) =>
    `${fn}(hashtext('signalbox ' || '${s.replaceAll("'", "''")}'), (${no} % 2147483647)::int)`
  const text = 'text COLLATE "C"'
  return {
    number: 1,
    name: 'jobs',
    statements: [
      `CREATE TABLE ${s}.signalbox_meta (key text PRIMARY KEY, value text NOT NULL)`,
      `INSERT INTO ${s}.signalbox_meta (key, value) VALUES ('store_id', gen_random_uuid()::text)`,

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
  free_count integer NOT NULL,
  run_at bigint NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  started_at bigint,
  worker_id text,
  backoff text,
  timeout_ms bigint,
  result text,
  error text,
  PRIMARY KEY (namespace, id)
)`,
      `CREATE INDEX job_pending_ready ON ${s}.job_pending (namespace, queue, (-priority::bigint), run_at, id)
  WHERE state = 'ready'`,
      `CREATE INDEX job_pending_scheduled ON ${s}.job_pending (namespace, queue, run_at) WHERE state = 'scheduled'`,

      `CREATE TYPE ${s}.leased_job AS (
  id ${text},
  queue ${text},
  kind ${text},
  payload text,
  priority integer,
  unique_key ${text},
  attempt integer,
  max_attempts integer,
  free_count integer,
  run_at bigint,
  created_at bigint,
  backoff text,
  timeout_ms bigint,
  result text,
  error text
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

      // 'final' and 'expired' go with their lease; 'returned' (back to pending) stays for an hour, for \`outcomes\`.
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
      `CREATE TABLE ${s}.queue_control (
  namespace ${text} NOT NULL,
  queue ${text} NOT NULL,
  paused_at bigint,
  PRIMARY KEY (namespace, queue)
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
  free_count integer NOT NULL,
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
  PRIMARY KEY (namespace, id)
)`,
      `CREATE INDEX job_history_failed ON ${s}.job_history (namespace, state, queue, id) WHERE state <> 'completed'`,

      `CREATE VIEW ${s}.job_queue AS
SELECT p.namespace, p.id, p.queue, p.kind, p.payload, p.priority, p.unique_key,
       CASE WHEN p.state = 'scheduled' AND p.run_at <= ${nowMs} THEN 'ready' ELSE p.state END AS state,
       p.attempt, p.max_attempts, p.free_count, p.run_at, p.created_at, p.updated_at, p.started_at, p.worker_id,
       NULL::bigint AS lease_no, NULL::bigint AS lease_ends_at, p.backoff, p.timeout_ms, p.result, p.error,
       false AS cancel_requested
FROM ${s}.job_pending p
UNION ALL
SELECT l.namespace, j.id, j.queue, j.kind, j.payload, j.priority, j.unique_key,
       CASE WHEN l.ends_at > ${nowMs} THEN 'running'
            WHEN c.job_id IS NOT NULL THEN 'cancelled'
            WHEN j.attempt >= j.max_attempts THEN 'dead'
            ELSE 'ready' END,
       j.attempt, j.max_attempts, j.free_count, j.run_at, j.created_at, l.claimed_at, l.claimed_at, l.worker_id,
       l.lease_no, l.ends_at, j.backoff, j.timeout_ms, j.result, j.error, c.job_id IS NOT NULL
FROM ${s}.job_lease l
CROSS JOIN LATERAL unnest(l.jobs) j
LEFT JOIN ${s}.job_cancel c ON c.namespace = l.namespace AND c.job_id = j.id
WHERE NOT EXISTS (SELECT FROM ${s}.job_end e WHERE e.lease_no = l.lease_no AND e.job_id = j.id)`,

      // An error that makes the COMMIT sent right behind it a rollback.
      `CREATE FUNCTION ${s}.signalbox_refuse(code text, reason text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = reason;
END $$`,

      `CREATE FUNCTION ${s}.signalbox_held(ns text, nos bigint[], nonces text[])
RETURNS TABLE (lease_no bigint, worker_id text, claimed_at bigint) LANGUAGE plpgsql ROWS 1 AS $$
#variable_conflict use_column
BEGIN
  PERFORM ${lock('pg_advisory_xact_lock_shared', 'n')} FROM unnest(nos) n;
  -- A caller's snapshot may be older than the lease's end and show it alive. Locking the row does not go by the
  -- snapshot: it is refused (40001) when the row is gone or was renewed since, and their transaction starts over.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM FROM ${s}.job_lease l WHERE l.lease_no = ANY (nos) FOR KEY SHARE;
  END IF;
  RETURN QUERY
    SELECT l.lease_no, l.worker_id, l.claimed_at
    FROM unnest(nos, nonces) g (no, nonce)
    JOIN ${s}.job_lease l ON l.lease_no = g.no
    WHERE l.namespace = ns AND l.nonce = g.nonce AND l.ends_at > ${nowMs};
END $$`,

      // The end of one job that is over, for the transaction that also has the user's rows: the commonest of all, so
      // its steps are planned once and nothing is read that the caller knows. Raises an error when the lease is lost,
      // so that the COMMIT sent right behind it is a rollback. A request to cancel it stays for upkeep to clear away.
      `CREATE FUNCTION ${s}.signalbox_end(ns text, no bigint, given_nonce text, job_id text, becomes text,
  attempt integer, free_count integer, ran_ms bigint, result text, queue text, kind text, payload text, priority integer,
  max_attempts integer, run_at bigint, created_at bigint, claimed_at bigint, worker_id text, backoff text,
  timeout_ms bigint, error text) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
  at bigint;
  asked boolean := false;
BEGIN
  PERFORM ${lock('pg_advisory_xact_lock_shared', 'no')};
  at := ${nowMs};
  PERFORM FROM ${s}.job_lease l
  WHERE l.lease_no = no AND l.namespace = ns AND l.nonce = given_nonce AND l.ends_at > at;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'SBX01', MESSAGE = 'the lease is lost';
  END IF;
  INSERT INTO ${s}.job_end VALUES (no, job_id, at, 'final');
  IF becomes = 'completed' THEN
    asked := EXISTS (SELECT FROM ${s}.job_cancel c WHERE c.namespace = ns AND c.job_id = signalbox_end.job_id);
  END IF;
  INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, state, attempt, max_attempts,
    free_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff, timeout_ms, result, error,
    cancel_ignored)
  VALUES (ns, job_id, queue, kind, payload, priority, becomes, attempt, max_attempts, free_count, run_at, created_at,
    coalesce(at - ran_ms, claimed_at), at, worker_id, no, backoff, timeout_ms, result, error, asked);
END $$`,

      // Ends whole leases: those live, that nobody else is ending jobs of, with exactly that many jobs open.
      `CREATE FUNCTION ${s}.signalbox_close(ns text, nos bigint[], nonces text[], counts integer[], ids text[])
RETURNS TABLE (lease_no bigint, worker_id text, claimed_at bigint, jobs ${s}.leased_job[]) LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
DECLARE
  ended bigint;
  taken bigint;
BEGIN
  FOR i IN 1 .. cardinality(nos) LOOP
    CONTINUE WHEN NOT ${lock('pg_try_advisory_xact_lock', 'nos[i]')};
    SELECT count(*), count(*) FILTER (WHERE e.job_id = ANY (ids)) INTO ended, taken
    FROM ${s}.job_end e WHERE e.lease_no = nos[i];
    CONTINUE WHEN taken > 0;
    RETURN QUERY
      DELETE FROM ${s}.job_lease l
      WHERE l.lease_no = nos[i] AND l.namespace = ns AND l.nonce = nonces[i] AND l.ends_at > ${nowMs}
        AND l.job_count - ended = counts[i]
      RETURNING l.lease_no, l.worker_id, l.claimed_at, l.jobs;
    IF FOUND AND ended > 0 THEN
      DELETE FROM ${s}.job_end e WHERE e.lease_no = nos[i] AND e.how <> 'returned';
    END IF;
  END LOOP;
END $$`,

      // Leases whose jobs have all ended one by one.
      `CREATE FUNCTION ${s}.signalbox_sweep(ns text, nos bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  no bigint;
BEGIN
  FOREACH no IN ARRAY nos LOOP
    CONTINUE WHEN NOT ${lock('pg_try_advisory_xact_lock', 'no')};
    DELETE FROM ${s}.job_lease l
    WHERE l.lease_no = no AND l.namespace = ns
      AND l.job_count = (SELECT count(*) FROM ${s}.job_end e WHERE e.lease_no = no);
    IF FOUND THEN
      DELETE FROM ${s}.job_end e WHERE e.lease_no = no AND e.how <> 'returned';
      RETURN NEXT no;
    END IF;
  END LOOP;
END $$`,

      // Takes back up to that many jobs of one lease that ran out. A job whose ack sits in somebody's open transaction
      // is left alone and reported; its neighbours are not held up by it.
      `CREATE FUNCTION ${s}.signalbox_take_back(ns text, no bigint, most integer, expired text,
  OUT ready integer, OUT dead integer, OUT cancelled integer, OUT blocked boolean) LANGUAGE plpgsql AS $$
DECLARE
  lease ${s}.job_lease;
  alone boolean;
  unended text[];
  taken text[];
  one text;
  took integer;
BEGIN
  ready := 0; dead := 0; cancelled := 0; blocked := false;
  SELECT * INTO lease FROM ${s}.job_lease l
  WHERE l.lease_no = no AND l.namespace = ns AND l.ends_at <= ${nowMs} FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN RETURN; END IF;
  alone := ${lock('pg_try_advisory_xact_lock', 'no')};
  unended := ARRAY (
    SELECT j.id FROM unnest(lease.jobs) j
    WHERE NOT EXISTS (SELECT FROM ${s}.job_end e WHERE e.lease_no = no AND e.job_id = j.id));
  taken := unended[1:most];
  IF NOT alone THEN
    unended := taken;
    taken := '{}';
    PERFORM set_config('lock_timeout', '5ms', true);
    FOREACH one IN ARRAY unended LOOP
      BEGIN
        INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how) VALUES (no, one, ${nowMs}, 'expired')
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS took = ROW_COUNT;
        IF took = 1 THEN taken := taken || one; END IF;
      EXCEPTION WHEN lock_not_available THEN
        blocked := true;
      END;
    END LOOP;
    PERFORM set_config('lock_timeout', '5s', true);
  ELSIF cardinality(taken) < cardinality(unended) THEN
    INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how)
    SELECT no, id, ${nowMs}, 'expired' FROM unnest(taken) id;
  ELSE
    DELETE FROM ${s}.job_end e WHERE e.lease_no = no AND e.how <> 'returned';
    DELETE FROM ${s}.job_lease l WHERE l.lease_no = no;
  END IF;

  WITH job AS MATERIALIZED (
    SELECT j.*, ${nowMs} AS at,
           CASE WHEN c.job_id IS NOT NULL THEN 'cancelled'
                WHEN j.attempt >= j.max_attempts THEN 'dead'
                ELSE 'ready' END AS becomes
    FROM unnest(lease.jobs) j
    LEFT JOIN ${s}.job_cancel c ON c.namespace = ns AND c.job_id = j.id
    WHERE j.id = ANY (taken)
  ), back AS (
    INSERT INTO ${s}.job_pending (namespace, id, queue, kind, payload, priority, unique_key, state, attempt,
      max_attempts, free_count, run_at, created_at, updated_at, started_at, worker_id, backoff, timeout_ms, result,
      error)
    SELECT ns, id, queue, kind, payload, priority, unique_key, 'ready', attempt, max_attempts, free_count, run_at,
      created_at, at, lease.claimed_at, lease.worker_id, backoff, timeout_ms, result, error
    FROM job WHERE becomes = 'ready'
  ), over AS (
    INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt,
      max_attempts, free_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff, timeout_ms,
      result, error, cancel_ignored)
    SELECT ns, id, queue, kind, payload, priority, unique_key, becomes, attempt, max_attempts, free_count, run_at,
      created_at, lease.claimed_at, at, lease.worker_id, NULL, backoff, timeout_ms, result,
      CASE WHEN becomes = 'dead' THEN expired ELSE error END, false
    FROM job WHERE becomes <> 'ready'
  ), freed AS (
    DELETE FROM ${s}.job_unique u USING job
    WHERE job.becomes <> 'ready' AND job.unique_key IS NOT NULL AND u.namespace = ns AND u.queue = job.queue
      AND u.unique_key = job.unique_key AND u.job_id = job.id
  ), heeded AS (
    DELETE FROM ${s}.job_cancel c USING job WHERE c.namespace = ns AND c.job_id = job.id
  )
  SELECT count(*) FILTER (WHERE becomes = 'ready'), count(*) FILTER (WHERE becomes = 'dead'),
         count(*) FILTER (WHERE becomes = 'cancelled')
  INTO ready, dead, cancelled FROM job;
END $$`,
    ],
  }
}
