import { nowMs } from '../connection/columns.ts'

/**
 * What jobs wait for, what their attempts log, and schedules.
 *
 * `job_progress` has a row for each attempt that logged anything; its counters number the attempt's log lines and say how much
 * more fits. A transaction that adds to an attempt locks that row until the commit, so no number is given twice. Rows are
 * locked in one order: by job, then attempt.
 *
 * A function that releases a job, or blocks it, locks its row in `job_pending` first and checks its dependencies then, each in
 * a statement of its own. So two calls at once happen one after the other, and the second sees what the first did.
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
    `CREATE INDEX job_lock_untended ON ${s}.job_lock (namespace, tended_until, job_id) WHERE is_called`,

    // Answers the released jobs. Only a dependency that is met just now releases a job: the others did when they were met.
    `CREATE FUNCTION ${s}.signalbox_meet(ns text, job_ids text[], dependency_ids text[])
RETURNS TABLE (job_id text, queue text, becomes text) LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
DECLARE
  met text[];
  one text;
  its_queue text;
BEGIN
  PERFORM FROM ${s}.job_pending p
  WHERE p.namespace = ns AND p.id = ANY (job_ids) AND p.state = 'waiting' ORDER BY p.id FOR UPDATE;
  PERFORM FROM ${s}.job_dependency n, unnest(job_ids, dependency_ids) g (job_id, dependency_id)
  WHERE n.namespace = ns AND n.job_id = g.job_id AND n.dependency_id = g.dependency_id AND NOT n.is_met
  ORDER BY n.job_id, n.dependency_id FOR UPDATE OF n;
  WITH now_met AS (
    UPDATE ${s}.job_dependency n SET is_met = true FROM unnest(job_ids, dependency_ids) g (job_id, dependency_id)
    WHERE n.namespace = ns AND n.job_id = g.job_id AND n.dependency_id = g.dependency_id AND NOT n.is_met
    RETURNING n.job_id
  )
  SELECT array_agg(DISTINCT m.job_id ORDER BY m.job_id) INTO met FROM now_met m;
  FOREACH one IN ARRAY coalesce(met, '{}') LOOP
    SELECT p.queue INTO its_queue FROM ${s}.job_pending p
    WHERE p.namespace = ns AND p.id = one AND p.state = 'waiting'
      AND NOT EXISTS (SELECT FROM ${s}.job_dependency n WHERE n.namespace = ns AND n.job_id = one AND NOT n.is_met);
    CONTINUE WHEN NOT FOUND;
    CONTINUE WHEN EXISTS (SELECT FROM ${s}.job_lock k WHERE k.namespace = ns AND k.job_id = one AND k.is_called);
    UPDATE ${s}.job_lock k SET is_called = true WHERE k.namespace = ns AND k.job_id = one;
    IF FOUND THEN
      RETURN QUERY SELECT one, its_queue, 'lock'::text;
    ELSE
      RETURN QUERY SELECT one, its_queue, ${s}.signalbox_let_on(ns, one);
    END IF;
  END LOOP;
END $$`,

    // Makes a waiting job ready or scheduled; answers which, or null when it did not wait.
    `CREATE FUNCTION ${s}.signalbox_let_on(ns text, one text) RETURNS text LANGUAGE sql AS $$
  UPDATE ${s}.job_pending SET state = CASE WHEN run_at <= ${nowMs} THEN 'ready' ELSE 'scheduled' END, updated_at = ${nowMs}
  WHERE namespace = ns AND id = one AND state = 'waiting'
  RETURNING state
$$`,

    `CREATE FUNCTION ${s}.signalbox_grant(ns text, one text, given_no bigint, given_fence bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  its_queue text;
BEGIN
  SELECT p.queue INTO its_queue FROM ${s}.job_pending p
  WHERE p.namespace = ns AND p.id = one AND p.state = 'waiting' FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  UPDATE ${s}.job_lock k SET fence = given_fence
  WHERE k.namespace = ns AND k.job_id = one AND k.ask_no = given_no AND k.is_called;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM ${s}.signalbox_let_on(ns, one);
  RETURN its_queue;
END $$`,

    // Blocks a job on its lock again. It is due for tending at once: earlier tending was for the earlier request.
    `CREATE FUNCTION ${s}.signalbox_shut(ns text, one text, given_no bigint, any_fence boolean, seen_fence bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM ${s}.job_pending p WHERE p.namespace = ns AND p.id = one FOR UPDATE;
  UPDATE ${s}.job_lock k SET fence = NULL, ask_no = k.ask_no + 1, is_called = true, tended_until = 0
  WHERE k.namespace = ns AND k.job_id = one AND k.ask_no = given_no
    AND (any_fence OR k.fence IS NOT DISTINCT FROM seen_fence);
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ${s}.job_pending p SET state = 'waiting', updated_at = ${nowMs}
  WHERE p.namespace = ns AND p.id = one AND p.state <> 'waiting';
  RETURN true;
END $$`,
  ]
}
