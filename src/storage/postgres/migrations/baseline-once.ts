import { nowMs } from '../connection/columns.ts'

/**
 * Guards: a row of `once_guard` for each key that is running, done or failed, and of `once_window` for each window. Every
 * statement treats rows past their time as absent; deleting them only saves disk space.
 *
 * The functions exist to save round trips. They visit keys in one order, so that two callers with the same keys wait for each
 * other and cannot deadlock. They read the time once, at the beginning.
 */
export function once(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.once_guard (
  namespace ${text} NOT NULL,
  space ${text} NOT NULL,
  guard_key ${text} NOT NULL,
  status ${text} NOT NULL CHECK (status IN ('running', 'done', 'failed')),
  mode ${text} NOT NULL CHECK (mode IN ('at-least-once', 'at-most-once')),
  attempt integer NOT NULL,
  token_no bigint NOT NULL,
  token_nonce ${text} NOT NULL,
  fingerprint ${text},
  result text,
  claimed_at bigint NOT NULL,
  keep_ms bigint NOT NULL,
  ends_at bigint NOT NULL,
  PRIMARY KEY (namespace, space, guard_key)
)`,
    // An expired claim is remembered like a failed one; one that may be stuck is never forgotten.
    `CREATE INDEX once_guard_over ON ${s}.once_guard
  (namespace, (CASE WHEN status = 'running' THEN ends_at + keep_ms ELSE ends_at END))
  WHERE NOT (status = 'running' AND mode = 'at-most-once')`,

    `CREATE TABLE ${s}.once_window (
  namespace ${text} NOT NULL,
  window_key ${text} NOT NULL,
  value ${text} NOT NULL,
  ends_at bigint NOT NULL,
  PRIMARY KEY (namespace, window_key)
)`,
    `CREATE INDEX once_window_over ON ${s}.once_window (namespace, ends_at)`,

    // Claims keys, none of them twice. Answers a row for each that is claimed ('run') and for each that is not, with its
    // status; none for a key that was taken when it was to be claimed and free when it was looked at.
    `CREATE FUNCTION ${s}.signalbox_claim_guards(ns text, spaces text[], keys text[], nonces text[],
  leases_ms bigint[], keeps_ms bigint[], modes text[], fingerprints text[], is_done boolean)
RETURNS TABLE (asked text, standing text, number bigint, attempts integer, owner_mode text, print text, outcome text,
  until bigint, at bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  micros bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000);
  claimed bigint;
  waited bigint;
BEGIN
  at := micros / 1000;
  RETURN QUERY
    INSERT INTO ${s}.once_guard AS k (namespace, space, guard_key, status, mode, attempt, token_no, token_nonce,
      fingerprint, result, claimed_at, keep_ms, ends_at)
    SELECT ns, coalesce(g.space, spaces[1]) COLLATE "C" AS in_space, g.key COLLATE "C" AS in_key,
           CASE WHEN is_done THEN 'done' ELSE 'running' END, coalesce(g.mode, modes[1]), 1, micros,
           g.nonce, g.fingerprint, NULL, at, coalesce(g.keep_ms, keeps_ms[1]),
           at + CASE WHEN is_done THEN coalesce(g.keep_ms, keeps_ms[1]) ELSE coalesce(g.lease_ms, leases_ms[1]) END
    FROM unnest(spaces, keys, nonces, leases_ms, keeps_ms, modes, fingerprints)
      g (space, key, nonce, lease_ms, keep_ms, mode, fingerprint)
    ORDER BY in_space, in_key
    ON CONFLICT (namespace, space, guard_key) DO UPDATE SET status = excluded.status, mode = excluded.mode,
      attempt = CASE WHEN k.status = 'failed' AND k.ends_at > at
                       OR k.status = 'running' AND k.ends_at + k.keep_ms > at THEN k.attempt + 1 ELSE 1 END,
      token_no = greatest(k.token_no + 1, excluded.token_no), token_nonce = excluded.token_nonce,
      fingerprint = excluded.fingerprint, result = NULL, claimed_at = excluded.claimed_at,
      keep_ms = excluded.keep_ms, ends_at = excluded.ends_at
    WHERE k.status = 'failed' OR k.ends_at <= at AND NOT (k.status = 'running' AND k.mode = 'at-most-once')
    RETURNING k.token_nonce, 'run', k.token_no, k.attempt, NULL, NULL, NULL, NULL::bigint, NULL::bigint;
  GET DIAGNOSTICS claimed = ROW_COUNT;

  -- Others had some of the keys in a transaction of theirs: a lease is counted from when it was got.
  waited := ${nowMs} - at;
  IF waited > 20 THEN
    FOR i IN 1 .. cardinality(keys) LOOP
      UPDATE ${s}.once_guard SET claimed_at = claimed_at + waited, ends_at = ends_at + waited
      WHERE namespace = ns AND space = coalesce(spaces[i], spaces[1]) AND guard_key = keys[i] AND token_nonce = nonces[i];
    END LOOP;
  END IF;
  IF claimed = cardinality(keys) THEN
    RETURN;
  END IF;

  at := ${nowMs};
  RETURN QUERY
    SELECT g.nonce, k.status, k.token_no, k.attempt, k.mode, k.fingerprint, k.result, k.ends_at, at
    FROM unnest(spaces, keys, nonces) g (space, key, nonce)
    -- The limit keeps this a look-up for each key, whatever the planner knew of the table when it made the plan.
    CROSS JOIN LATERAL (
      SELECT * FROM ${s}.once_guard
      WHERE namespace = ns AND space = coalesce(g.space, spaces[1]) AND guard_key = g.key LIMIT 1
    ) k
    WHERE k.token_nonce <> g.nonce;
END $$`,

    // Ends claims, in the order given where a key is named twice; answers the numbers of those that were written.
    `CREATE FUNCTION ${s}.signalbox_settle_guards(ns text, spaces text[], keys text[], numbers bigint[],
  nonces text[], endings text[], results text[]) RETURNS SETOF integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  g record;
  at bigint := ${nowMs};
BEGIN
  FOR g IN
    SELECT nr::integer AS nr, coalesce(u.space, spaces[1]) COLLATE "C" AS in_space, u.key COLLATE "C" AS in_key,
           u.number, u.nonce, coalesce(u.ending, endings[1]) AS ending, u.result
    FROM unnest(spaces, keys, numbers, nonces, endings, results) WITH ORDINALITY
      u (space, key, number, nonce, ending, result, nr)
    ORDER BY in_space, in_key, nr
  LOOP
    IF g.ending = 'released' THEN
      DELETE FROM ${s}.once_guard WHERE namespace = ns AND space = g.in_space AND guard_key = g.in_key
        AND status = 'running' AND token_no = g.number AND token_nonce = g.nonce
        AND (ends_at > at OR mode = 'at-most-once');
    ELSE
      UPDATE ${s}.once_guard SET status = g.ending, result = g.result, ends_at = at + keep_ms
      WHERE namespace = ns AND space = g.in_space AND guard_key = g.in_key
        AND status = 'running' AND token_no = g.number AND token_nonce = g.nonce
        AND (ends_at > at OR mode = 'at-most-once');
    END IF;
    IF FOUND THEN
      RETURN NEXT g.nr;
    END IF;
  END LOOP;
END $$`,
  ]
}
