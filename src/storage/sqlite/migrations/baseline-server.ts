/**
 * The store's own notes, access, audit and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because a bearer shows it before its namespace is known. `nodes` names the only
 * nodes that a token of scope `node` may connect as.
 *
 * A fleet row is found by its key, by its version and, once removed, by since when. `fleet_board` has the newest version
 * and the newest that was forgotten. The document, which may be large, is the last column.
 */
export const server: readonly string[] = [
  `CREATE TABLE signalbox_meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `INSERT INTO signalbox_meta (key, value) VALUES ('store_id', lower(hex(randomblob(16))))`,
  `CREATE TABLE access_token (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    nodes TEXT
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE request_key (
    namespace TEXT NOT NULL,
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, caller, key)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX request_key_expires ON request_key (expires_at)`,
  `CREATE TABLE audit_entry (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    actor_name TEXT,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT,
    PRIMARY KEY (namespace, id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX audit_entry_action ON audit_entry (namespace, action, id)`,
  `CREATE INDEX audit_entry_actor ON audit_entry (namespace, actor, id)`,
  `CREATE INDEX audit_entry_at ON audit_entry (namespace, at)`,
  `CREATE TABLE fleet_board (
    namespace TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    forgotten INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE fleet_row (
    fleet_row INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,
    row_key TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_at INTEGER,
    removed_at INTEGER,
    doc TEXT
  ) STRICT`,
  `CREATE UNIQUE INDEX fleet_row_key ON fleet_row (namespace, kind, row_key)`,
  `CREATE UNIQUE INDEX fleet_row_version ON fleet_row (namespace, version)`,
  `CREATE INDEX fleet_row_removed ON fleet_row (namespace, removed_at, version)
    WHERE removed_at IS NOT NULL`,
]
