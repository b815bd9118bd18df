import { nowMs } from '../connection/columns.ts'

/**
 * How the jobs of a lease end.
 *
 * The fence is `job_end`: a transaction that ends one job of a lease inserts its key (lease, job), so only one can. It holds
 * the lease's advisory lock shared, taken before it checks that the lease is live and kept until it commits. A transaction
 * that ends a lease as a whole takes that lock exclusively or gives up. With the lock held, no other transaction is between
 * checking and writing, so the row and its `job_end` rows can go, and later transactions find no lease. The functions
 * exist because of this order: each statement in them sees what was committed before it, also after waiting for a lock.
 */
export function jobFunctions(s: string): readonly string[] {
  const lock = (fn: string, no: string) =>
    `${fn}(hashtext('signalbox ' || '${s.replaceAll("'", "''")}'), (${no} % 2147483647)::int)`
  return [
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

    // Ends one job, in the transaction that also has the user's rows. This is the commonest end of all, so its steps are
    // planned once, and it reads nothing that the caller knows. It raises an error when the lease is lost, so that the
    // COMMIT sent right behind it is a rollback. A cancellation request stays for upkeep to delete.
    `CREATE FUNCTION ${s}.signalbox_end(ns text, no bigint, given_nonce text, job_id text, becomes text,
  attempt integer, hand_back_count integer, snooze_count integer, ran_ms bigint, result text, queue text, kind text,
  payload text, priority integer, max_attempts integer, run_at bigint, created_at bigint, claimed_at bigint,
  worker_id text, backoff text, timeout_ms bigint, error text, meta text) RETURNS void LANGUAGE plpgsql AS $$
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
    hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff,
    timeout_ms, result, error, cancel_ignored, meta)
  VALUES (ns, job_id, queue, kind, payload, priority, becomes, attempt, max_attempts, hand_back_count, snooze_count,
    run_at, created_at, coalesce(at - ran_ms, claimed_at), at, worker_id, no, backoff, timeout_ms, result, error, asked, meta);
END $$`,

    // Ends whole leases: live ones with exactly that many open jobs, of which no other transaction is ending jobs.
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

    // Deletes leases whose jobs have all ended one by one.
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

    // Takes back up to that many jobs of one expired lease. A job whose ack is in an open transaction is left alone and
    // reported; the other jobs do not wait for it.
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
      max_attempts, hand_back_count, snooze_count, run_at, created_at, updated_at, started_at, worker_id, backoff,
      timeout_ms, result, error, meta)
    SELECT ns, id, queue, kind, payload, priority, unique_key, 'ready', attempt, max_attempts, hand_back_count,
      snooze_count, run_at, created_at, at, lease.claimed_at, lease.worker_id, backoff, timeout_ms, result, error, meta
    FROM job WHERE becomes = 'ready'
  ), over AS (
    INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt,
      max_attempts, hand_back_count, snooze_count, run_at, created_at, started_at, finished_at, worker_id, lease_no,
      backoff, timeout_ms, result, error, cancel_ignored, meta)
    SELECT ns, id, queue, kind, payload, priority, unique_key, becomes, attempt, max_attempts, hand_back_count,
      snooze_count, run_at, created_at, lease.claimed_at, at, lease.worker_id, NULL, backoff, timeout_ms, result,
      CASE WHEN becomes = 'dead' THEN expired ELSE error END, false, meta
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

    // Locks and answers the limits of a queue; no row when it has none, is paused, or another transaction keeps it too long.
    `CREATE FUNCTION ${s}.signalbox_limits(ns text, name text)
RETURNS TABLE (limits text, key_position text, adopt_until bigint) LANGUAGE plpgsql ROWS 1 SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT c.limits, c.key_position, c.adopt_until FROM ${s}.queue_control c
    WHERE c.namespace = ns AND c.queue = name AND c.limits IS NOT NULL AND c.paused_at IS NULL FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
  RETURN;
END $$`,

    // Removes jobs with all that is known of them, except those in leases; answers which were there. One by one, each by
    // its key: the numbers of waiting, ended and keyed jobs change faster than the planner's statistics.
    `CREATE FUNCTION ${s}.signalbox_remove(ns text, ids text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  one text;
  its_queue text;
  its_key text;
  its_lease bigint;
BEGIN
  FOREACH one IN ARRAY ids LOOP
    DELETE FROM ${s}.job_pending WHERE namespace = ns AND id = one RETURNING queue, unique_key INTO its_queue, its_key;
    IF FOUND THEN
      IF its_key IS NOT NULL THEN
        DELETE FROM ${s}.job_unique
        WHERE namespace = ns AND queue = its_queue AND unique_key = its_key AND job_id = one;
      END IF;
    ELSE
      DELETE FROM ${s}.job_history WHERE namespace = ns AND id = one RETURNING lease_no INTO its_lease;
      CONTINUE WHEN NOT FOUND;
      -- History no longer shows how that attempt ended, and it may still be asked for.
      IF its_lease IS NOT NULL THEN
        INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how) VALUES (its_lease, one, ${nowMs}, 'returned')
        ON CONFLICT DO NOTHING;
      END IF;
    END IF;
    DELETE FROM ${s}.job_cancel WHERE namespace = ns AND job_id = one;
    DELETE FROM ${s}.job_progress WHERE namespace = ns AND job_id = one;
    DELETE FROM ${s}.job_log WHERE namespace = ns AND job_id = one;
    DELETE FROM ${s}.job_dependency WHERE namespace = ns AND job_id = one;
    DELETE FROM ${s}.job_lock WHERE namespace = ns AND job_id = one;
    RETURN NEXT one;
  END LOOP;
END $$`,
  ]
}
