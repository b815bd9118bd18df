import { nowMs } from '../connection/columns.ts'

/**
 * The store's own notes, access, audit and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because a bearer shows it before its namespace is known. `nodes` names the only
 * nodes that a token of scope `node` may connect as. A request's key is written in the transaction of its effect.
 *
 * `fleet_board` has the newest version of a namespace and the newest that was forgotten. A writer locks its row until the
 * commit, so versions are seen in the order in which they were given, and writers cannot deadlock. A fleet row's key of up to
 * 600 characters may be too wide for an index and is found by its SHA-256. A removed row has no `doc`, and `removed_at`. A
 * writer reads the time once it has the lock.
 */
export function server(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.signalbox_meta (key text PRIMARY KEY, value text NOT NULL)`,
    `INSERT INTO ${s}.signalbox_meta (key, value) VALUES ('store_id', gen_random_uuid()::text)`,

    `CREATE TABLE ${s}.access_token (
  namespace ${text} NOT NULL,
  id ${text} PRIMARY KEY,
  name text NOT NULL,
  scope ${text} NOT NULL CHECK (scope IN ('read', 'work', 'admin', 'node')),
  digest ${text} NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  nodes text
)`,
    `CREATE TABLE ${s}.request_key (
  namespace ${text} NOT NULL,
  caller ${text} NOT NULL,
  key ${text} NOT NULL,
  fingerprint ${text} NOT NULL,
  answer text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  PRIMARY KEY (namespace, caller, key)
)`,
    `CREATE INDEX request_key_expires ON ${s}.request_key (expires_at)`,

    `CREATE TABLE ${s}.audit_entry (
  namespace ${text} NOT NULL,
  id ${text} NOT NULL,
  at bigint NOT NULL,
  actor ${text} NOT NULL,
  actor_name text,
  action ${text} NOT NULL,
  target text NOT NULL,
  outcome ${text} NOT NULL CHECK (outcome IN ('done', 'refused', 'unknown')),
  code ${text},
  PRIMARY KEY (namespace, id)
)`,
    `CREATE INDEX audit_entry_action ON ${s}.audit_entry (namespace, action, id)`,
    `CREATE INDEX audit_entry_actor ON ${s}.audit_entry (namespace, actor, id)`,
    `CREATE INDEX audit_entry_at ON ${s}.audit_entry (namespace, at)`,

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

    // Deletes rows that were removed longer ago than that, the oldest first; answers how many. The newest row of all stays:
    // a reader that has read to the end is then above what was forgotten.
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
  ]
}
