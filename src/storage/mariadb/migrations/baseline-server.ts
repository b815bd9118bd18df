/**
 * The store's own notes, access, audit and the cluster state that servers share.
 *
 * A token's id is unique over all namespaces, because a bearer shows it before its namespace is known. `nodes` names the only
 * nodes that a token of scope `node` may connect as.
 *
 * A request's key is written in the transaction of its effect: first without an answer, so that its row is locked, and at the
 * end with it. No other transaction ever sees one without. Its primary key has 2,548 bytes of the 3,072 allowed.
 *
 * `fleet_board` has the newest version of a namespace and the newest that was forgotten. A writer locks its row until the
 * commit, so versions are seen in the order in which they were given, and writers cannot deadlock. A fleet row's key of up to
 * 600 characters is too wide for an index and is found by its SHA-256. A removed row has no `doc`, and `removed_at`.
 */
export const server: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS signalbox_meta (
  name VARCHAR(64) NOT NULL PRIMARY KEY,
  value VARCHAR(191) NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `INSERT IGNORE INTO signalbox_meta (name, value) VALUES ('store_id', UUID())`,
  `CREATE TABLE IF NOT EXISTS access_token (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  name VARCHAR(191) NOT NULL,
  scope ENUM ('read', 'work', 'admin', 'node') NOT NULL,
  digest VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NULL,
  revoked_at BIGINT NULL,
  nodes MEDIUMTEXT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS request_key (
  namespace VARCHAR(191) NOT NULL,
  caller VARCHAR(191) NOT NULL,
  \`key\` VARCHAR(255) NOT NULL,
  fingerprint VARCHAR(64) NOT NULL,
  answer LONGTEXT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (namespace, caller, \`key\`),
  KEY request_key_expires (expires_at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS audit_entry (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL,
  at BIGINT NOT NULL,
  actor VARCHAR(191) NOT NULL,
  actor_name VARCHAR(191) NULL,
  action VARCHAR(191) NOT NULL,
  target TEXT NOT NULL,
  outcome ENUM ('done', 'refused', 'unknown') NOT NULL,
  code VARCHAR(191) NULL,
  PRIMARY KEY (namespace, id),
  KEY audit_entry_action (namespace, action, id),
  KEY audit_entry_actor (namespace, actor, id),
  KEY audit_entry_at (namespace, at)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS fleet_board (
  namespace VARCHAR(191) NOT NULL PRIMARY KEY,
  version BIGINT NOT NULL,
  forgotten BIGINT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
  `CREATE TABLE IF NOT EXISTS fleet_row (
  namespace VARCHAR(191) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  key_hash VARCHAR(43) NOT NULL,
  row_key VARCHAR(600) NOT NULL,
  version BIGINT NOT NULL,
  doc LONGTEXT NULL,
  expires_at BIGINT NULL,
  removed_at BIGINT NULL,
  PRIMARY KEY (namespace, kind, key_hash),
  KEY fleet_row_version (namespace, version),
  KEY fleet_row_removed (namespace, removed_at, version)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`,
]
