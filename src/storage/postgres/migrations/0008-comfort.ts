import type { Migration } from '../../migration-plan.ts'

/**
 * Words about a job, what its attempts say of themselves, and schedules.
 *
 * `meta` goes with a job wherever it goes: into a lease's row, to history and back. The view and the functions that
 * carry jobs are those of 0001-jobs.ts, with one column more.
 *
 * `job_progress` has a row for each attempt that said anything; its counters number the attempt's lines and say how much
 * room is left. Whoever adds to an attempt has that row locked until the commit, so no number is given twice. Rows are
 * locked in one order: by job, then attempt.
 */
export function comfort(s: string): Migration {
  const nowMs = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
  const lock = (fn: string, no: string) =>
    `${fn}(hashtext('signalbox ' || '${s.replaceAll("'", "''")}'), (${no} % 2147483647)::int)`
  const text = 'text COLLATE "C"'
  return {
    number: 8,
    name: 'comfort',
    statements: [
      `ALTER TABLE ${s}.job_pending ADD COLUMN meta text`,
      `ALTER TABLE ${s}.job_history ADD COLUMN meta text`,
      `ALTER TYPE ${s}.leased_job ADD ATTRIBUTE meta text`,

      `CREATE OR REPLACE VIEW ${s}.job_queue AS
SELECT p.namespace, p.id, p.queue, p.kind, p.payload, p.priority, p.unique_key,
       CASE WHEN p.state = 'scheduled' AND p.run_at <= ${nowMs} THEN 'ready' ELSE p.state END AS state,
       p.attempt, p.max_attempts, p.free_count, p.run_at, p.created_at, p.updated_at, p.started_at, p.worker_id,
       NULL::bigint AS lease_no, NULL::bigint AS lease_ends_at, p.backoff, p.timeout_ms, p.result, p.error,
       false AS cancel_requested, p.meta
FROM ${s}.job_pending p
UNION ALL
SELECT l.namespace, j.id, j.queue, j.kind, j.payload, j.priority, j.unique_key,
       CASE WHEN l.ends_at > ${nowMs} THEN 'running'
            WHEN c.job_id IS NOT NULL THEN 'cancelled'
            WHEN j.attempt >= j.max_attempts THEN 'dead'
            ELSE 'ready' END,
       j.attempt, j.max_attempts, j.free_count, j.run_at, j.created_at, l.claimed_at, l.claimed_at, l.worker_id,
       l.lease_no, l.ends_at, j.backoff, j.timeout_ms, j.result, j.error, c.job_id IS NOT NULL, j.meta
FROM ${s}.job_lease l
CROSS JOIN LATERAL unnest(l.jobs) j
LEFT JOIN ${s}.job_cancel c ON c.namespace = l.namespace AND c.job_id = j.id
WHERE NOT EXISTS (SELECT FROM ${s}.job_end e WHERE e.lease_no = l.lease_no AND e.job_id = j.id)`,

      `DROP FUNCTION ${s}.signalbox_end(text, bigint, text, text, text, integer, integer, bigint, text, text, text, text,
  integer, integer, bigint, bigint, bigint, text, text, bigint, text)`,
      `CREATE FUNCTION ${s}.signalbox_end(ns text, no bigint, given_nonce text, job_id text, becomes text,
  attempt integer, free_count integer, ran_ms bigint, result text, queue text, kind text, payload text, priority integer,
  max_attempts integer, run_at bigint, created_at bigint, claimed_at bigint, worker_id text, backoff text,
  timeout_ms bigint, error text, meta text) RETURNS void LANGUAGE plpgsql AS $$
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
    cancel_ignored, meta)
  VALUES (ns, job_id, queue, kind, payload, priority, becomes, attempt, max_attempts, free_count, run_at, created_at,
    coalesce(at - ran_ms, claimed_at), at, worker_id, no, backoff, timeout_ms, result, error, asked, meta);
END $$`,

      `CREATE OR REPLACE FUNCTION ${s}.signalbox_take_back(ns text, no bigint, most integer, expired text,
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
      error, meta)
    SELECT ns, id, queue, kind, payload, priority, unique_key, 'ready', attempt, max_attempts, free_count, run_at,
      created_at, at, lease.claimed_at, lease.worker_id, backoff, timeout_ms, result, error, meta
    FROM job WHERE becomes = 'ready'
  ), over AS (
    INSERT INTO ${s}.job_history (namespace, id, queue, kind, payload, priority, unique_key, state, attempt,
      max_attempts, free_count, run_at, created_at, started_at, finished_at, worker_id, lease_no, backoff, timeout_ms,
      result, error, cancel_ignored, meta)
    SELECT ns, id, queue, kind, payload, priority, unique_key, becomes, attempt, max_attempts, free_count, run_at,
      created_at, lease.claimed_at, at, lease.worker_id, NULL, backoff, timeout_ms, result,
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
      `CREATE TABLE ${s}.job_line (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  attempt integer NOT NULL,
  number integer NOT NULL,
  level text NOT NULL,
  text text NOT NULL,
  said_at bigint NOT NULL,
  PRIMARY KEY (namespace, job_id, attempt, number)
)`,

      // Adds to attempts one after the other. The lines of one are \`levels\`, \`texts\` and \`sizes\` (bytes so far) from
      // \`firsts\` on to before the next one's; \`counts\` has how many it said, also those that were not worth sending.
      `CREATE FUNCTION ${s}.signalbox_note(ns text, job_ids text[], attempts integer[], progresses text[],
  counts integer[], firsts integer[], levels text[], texts text[], sizes integer[], max_lines integer,
  max_bytes integer) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  at bigint := ${nowMs};
  had_lines integer;
  had_bytes integer;
  had_dropped bigint;
  kept integer;
  first integer;
BEGIN
  FOR i IN 1 .. cardinality(job_ids) LOOP
    INSERT INTO ${s}.job_progress AS p (namespace, job_id, attempt, progress, progress_at, line_count, line_bytes,
      dropped_count, noted_at)
    VALUES (ns, job_ids[i], attempts[i], progresses[i], CASE WHEN progresses[i] IS NOT NULL THEN at END, 0, 0, 0, at)
    ON CONFLICT (namespace, job_id, attempt) DO UPDATE SET
      progress = coalesce(excluded.progress, p.progress),
      progress_at = coalesce(excluded.progress_at, p.progress_at),
      noted_at = greatest(p.noted_at, excluded.noted_at)
    RETURNING line_count, line_bytes, dropped_count INTO had_lines, had_bytes, had_dropped;
    CONTINUE WHEN counts[i] = 0;
    kept := 0;
    first := firsts[i];
    IF had_dropped = 0 THEN
      INSERT INTO ${s}.job_line (namespace, job_id, attempt, number, level, text, said_at)
      SELECT ns, job_ids[i], attempts[i], had_lines + nr - first + 1, levels[nr], texts[nr], at
      FROM generate_series(first, coalesce(firsts[i + 1] - 1, cardinality(texts))) nr
      WHERE had_lines + nr - first < max_lines AND had_bytes + sizes[nr] <= max_bytes;
      GET DIAGNOSTICS kept = ROW_COUNT;
    END IF;
    UPDATE ${s}.job_progress SET
      line_count = had_lines + kept,
      line_bytes = had_bytes + CASE WHEN kept > 0 THEN sizes[first + kept - 1] ELSE 0 END,
      dropped_count = had_dropped + counts[i] - kept,
      dropped_at = CASE WHEN counts[i] > kept THEN at ELSE dropped_at END
    WHERE namespace = ns AND job_id = job_ids[i] AND attempt = attempts[i];
  END LOOP;
END $$`,

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
  PRIMARY KEY (namespace, name)
)`,
      `CREATE INDEX job_schedule_due ON ${s}.job_schedule (namespace, next_at, name)
  WHERE NOT is_paused AND next_at IS NOT NULL`,
    ],
  }
}
