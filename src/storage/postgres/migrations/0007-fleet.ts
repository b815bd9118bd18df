import type { Migration } from '../../migration-plan.ts'

/**
 * The board that servers with one fleet share. `fleet_board` has the newest version of a namespace and the newest that
 * was forgotten. Whoever writes has its row locked until the commit, so versions are seen in the order in which they
 * were given, and no two writers ever wait for each other in a ring.
 *
 * A key is found by its SHA-256: 600 characters may be too wide for an index. A row that was removed has no `doc`, and
 * `removed_at`. The time of a write is read once the board is had.
 */
export function fleet(s: string): Migration {
  const text = 'text COLLATE "C"'
  const nowMs = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
  return {
    number: 7,
    name: 'fleet',
    statements: [
      `CREATE TABLE ${s}.fleet_board (
  namespace ${text} NOT NULL PRIMARY KEY,
  version bigint NOT NULL,
  forgotten bigint NOT NULL
)`,
      `CREATE TABLE ${s}.fleet_row (
  namespace ${text} NOT NULL,
  kind ${text} NOT NULL,
  key_hash ${text} NOT NULL,
  row_key ${text} NOT NULL,
  version bigint NOT NULL,
  doc text,
  expires_at bigint,
  removed_at bigint,
  PRIMARY KEY (namespace, kind, key_hash)
)`,
      `CREATE UNIQUE INDEX fleet_row_version ON ${s}.fleet_row (namespace, version)`,
      `CREATE INDEX fleet_row_removed ON ${s}.fleet_row (namespace, removed_at, version) WHERE removed_at IS NOT NULL`,

      // Makes the writes in the order given; answers the new version of each, or null.
      `CREATE FUNCTION ${s}.signalbox_write_fleet(ns text, kinds text[], keys text[], hashes text[], seens bigint[],
  docs text[], fors_ms bigint[]) RETURNS TABLE (took bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  last bigint;
  next bigint;
  at bigint;
  found_version bigint;
  found_removed bigint;
BEGIN
  LOOP
    SELECT version INTO last FROM ${s}.fleet_board WHERE namespace = ns FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO ${s}.fleet_board (namespace, version, forgotten) VALUES (ns, 0, 0) ON CONFLICT DO NOTHING;
  END LOOP;
  next := last;
  at := ${nowMs};
  FOR i IN 1 .. cardinality(keys) LOOP
    took := NULL;
    SELECT version, removed_at INTO found_version, found_removed FROM ${s}.fleet_row
    WHERE namespace = ns AND kind = kinds[i] AND key_hash = hashes[i];
    IF seens[i] = found_version OR seens[i] = 0 AND (found_version IS NULL OR found_removed IS NOT NULL) THEN
      next := next + 1;
      took := next;
      INSERT INTO ${s}.fleet_row (namespace, kind, key_hash, row_key, version, doc, expires_at, removed_at)
      VALUES (ns, kinds[i], hashes[i], keys[i], next, docs[i],
              CASE WHEN docs[i] IS NOT NULL THEN at + fors_ms[i] END, CASE WHEN docs[i] IS NULL THEN at END)
      ON CONFLICT (namespace, kind, key_hash) DO UPDATE SET version = excluded.version, doc = excluded.doc,
        expires_at = excluded.expires_at, removed_at = excluded.removed_at;
    END IF;
    RETURN NEXT;
  END LOOP;
  IF next > last THEN
    UPDATE ${s}.fleet_board SET version = next WHERE namespace = ns;
  END IF;
END $$`,

      // Forgets rows that were removed longer ago than that, the oldest first; answers how many. The newest row of all
      // stays: whoever has read the board to its end is then above what was forgotten.
      `CREATE FUNCTION ${s}.signalbox_prune_fleet(ns text, most integer, older_ms bigint)
RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  last bigint;
  gone integer;
  newest bigint;
BEGIN
  SELECT version INTO last FROM ${s}.fleet_board WHERE namespace = ns FOR UPDATE;
  WITH old AS (
    DELETE FROM ${s}.fleet_row WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM ${s}.fleet_row
      WHERE namespace = ns AND removed_at < (SELECT ${nowMs} - older_ms) AND version < last
      ORDER BY removed_at, version LIMIT most))
    RETURNING version
  )
  SELECT count(*), max(version) INTO gone, newest FROM old;
  IF gone > 0 THEN
    UPDATE ${s}.fleet_board SET forgotten = greatest(forgotten, newest) WHERE namespace = ns;
  END IF;
  RETURN gone;
END $$`,
    ],
  }
}
