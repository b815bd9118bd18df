import type { Migration } from '../../migration-plan.ts'

/**
 * What a job waits for besides its time: room within the limits of its queue, other jobs, a lock.
 *
 * The rule of a queue is in its row of `queue_control`; whoever claims from a queue that has one holds that row until
 * the commit. What runs of it is counted by `job_slot`, which such a claim writes beside its lease: a slot counts while
 * its lease is live and has no `job_end` for its job, so nobody gives it back. Claims that were under way when the rule
 * was made wrote none; until `adopt_until` has passed, whoever claims looks for those.
 *
 * `limit_key` is worked out when a job comes to wait, so that nobody who puts one there need know of it.
 *
 * Whoever lets a job on, or holds it back, locks its row in `job_pending` first and looks at its gates then, each in a
 * statement of its own: so what two do at once is done one after the other, and the second sees what the first did.
 */
export function gates(s: string): Migration {
  const nowMs = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
  const text = 'text COLLATE "C"'
  return {
    number: 9,
    name: 'gates',
    statements: [
      // Words that are not JSON, or that no text of Postgres can hold, have no key.
      `CREATE FUNCTION ${s}.signalbox_limit_key(meta text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  given jsonb;
BEGIN
  given := meta::jsonb -> 'limitKey';
  RETURN CASE WHEN jsonb_typeof(given) = 'string' THEN nullif(given #>> '{}', '') END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$`,
      // Not a generated column, which would cost every job that has no key a tenth of its way in.
      `ALTER TABLE ${s}.job_pending ADD COLUMN limit_key ${text}`,
      `CREATE FUNCTION ${s}.signalbox_note_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.limit_key := ${s}.signalbox_limit_key(NEW.meta);
  RETURN NEW;
END $$`,
      `CREATE TRIGGER signalbox_note_key BEFORE INSERT ON ${s}.job_pending
  FOR EACH ROW WHEN (NEW.meta LIKE '%"limitKey"%') EXECUTE FUNCTION ${s}.signalbox_note_key()`,
      `CREATE INDEX job_pending_keyed ON ${s}.job_pending (namespace, queue, limit_key, (-priority::bigint), run_at, id)
  WHERE state = 'ready' AND limit_key IS NOT NULL`,

      `ALTER TABLE ${s}.queue_control
  ADD COLUMN limits text,
  ADD COLUMN is_counted boolean NOT NULL DEFAULT false,
  ADD COLUMN adopt_until bigint,
  ADD COLUMN key_place ${text}`,
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
  counts_until bigint NOT NULL,
  PRIMARY KEY (namespace, queue, limit_key)
)`,
      `CREATE INDEX job_rate_over ON ${s}.job_rate (namespace, queue, counts_until)`,

      // The rule of a queue, with its row locked; no row when it has none, is paused, or somebody else keeps it too long.
      `CREATE FUNCTION ${s}.signalbox_limits(ns text, name text)
RETURNS TABLE (limits text, key_place text, adopt_until bigint) LANGUAGE plpgsql ROWS 1 SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT c.limits, c.key_place, c.adopt_until FROM ${s}.queue_control c
    WHERE c.namespace = ns AND c.queue = name AND c.limits IS NOT NULL AND c.paused_at IS NULL FOR UPDATE;
EXCEPTION WHEN lock_not_available THEN
  RETURN;
END $$`,

      `CREATE TABLE ${s}.job_need (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  needs_id ${text} NOT NULL,
  is_met boolean NOT NULL,
  PRIMARY KEY (namespace, job_id, needs_id)
)`,
      `CREATE INDEX job_need_of ON ${s}.job_need (namespace, needs_id, job_id)`,
      `CREATE INDEX job_need_unmet ON ${s}.job_need (namespace, job_id, needs_id) WHERE NOT is_met`,
      `CREATE TABLE ${s}.job_lock (
  namespace ${text} NOT NULL,
  job_id ${text} NOT NULL,
  operation ${text} NOT NULL,
  resource ${text} NOT NULL,
  ask_no bigint NOT NULL,
  fence bigint,
  is_called boolean NOT NULL,
  tended_until bigint NOT NULL,
  PRIMARY KEY (namespace, job_id)
)`,
      `CREATE INDEX job_lock_untended ON ${s}.job_lock (namespace, tended_until, job_id) WHERE is_called`,

      // Answers the jobs let on. Only a need that was met just now lets a job on: the others did when they were.
      `CREATE FUNCTION ${s}.signalbox_meet(ns text, job_ids text[], needs_ids text[])
RETURNS TABLE (job_id text, queue text, becomes text) LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
DECLARE
  met text[];
  one text;
  its_queue text;
BEGIN
  PERFORM FROM ${s}.job_pending p
  WHERE p.namespace = ns AND p.id = ANY (job_ids) AND p.state = 'waiting' ORDER BY p.id FOR UPDATE;
  PERFORM FROM ${s}.job_need n, unnest(job_ids, needs_ids) g (job_id, needs_id)
  WHERE n.namespace = ns AND n.job_id = g.job_id AND n.needs_id = g.needs_id AND NOT n.is_met
  ORDER BY n.job_id, n.needs_id FOR UPDATE OF n;
  WITH now_met AS (
    UPDATE ${s}.job_need n SET is_met = true FROM unnest(job_ids, needs_ids) g (job_id, needs_id)
    WHERE n.namespace = ns AND n.job_id = g.job_id AND n.needs_id = g.needs_id AND NOT n.is_met
    RETURNING n.job_id
  )
  SELECT array_agg(DISTINCT m.job_id ORDER BY m.job_id) INTO met FROM now_met m;
  FOREACH one IN ARRAY coalesce(met, '{}') LOOP
    SELECT p.queue INTO its_queue FROM ${s}.job_pending p
    WHERE p.namespace = ns AND p.id = one AND p.state = 'waiting'
      AND NOT EXISTS (SELECT FROM ${s}.job_need n WHERE n.namespace = ns AND n.job_id = one AND NOT n.is_met);
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

      // Puts a job that waits in line; answers what it is then, or null when it did not wait.
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

      `CREATE FUNCTION ${s}.signalbox_shut(ns text, one text, given_no bigint, any_fence boolean, seen_fence bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM ${s}.job_pending p WHERE p.namespace = ns AND p.id = one FOR UPDATE;
  UPDATE ${s}.job_lock k SET fence = NULL, ask_no = k.ask_no + 1, is_called = true
  WHERE k.namespace = ns AND k.job_id = one AND k.ask_no = given_no
    AND (any_fence OR k.fence IS NOT DISTINCT FROM seen_fence);
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ${s}.job_pending p SET state = 'waiting', updated_at = ${nowMs}
  WHERE p.namespace = ns AND p.id = one AND p.state <> 'waiting';
  RETURN true;
END $$`,

      // Jobs with all that is known of them, but for those in leases; answers which were there. One by one, each by its
      // key: how many wait, end and have keys changes faster than what a planner knows of it.
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
    DELETE FROM ${s}.job_line WHERE namespace = ns AND job_id = one;
    DELETE FROM ${s}.job_need WHERE namespace = ns AND job_id = one;
    DELETE FROM ${s}.job_lock WHERE namespace = ns AND job_id = one;
    RETURN NEXT one;
  END LOOP;
END $$`,
    ],
  }
}
