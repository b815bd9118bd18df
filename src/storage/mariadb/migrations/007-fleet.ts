import type { Migration } from '../../migration-plan.ts'

/**
 * The board that servers with one fleet share. `fleet_board` has the newest version of a namespace and the newest that
 * was forgotten. Whoever writes has its row locked until the commit, so versions are seen in the order in which they
 * were given, and no two writers ever wait for each other in a ring.
 *
 * A key is found by its SHA-256: 600 characters are too wide for an index. A row that was removed has no `doc`, and
 * `removed_at`. The widest key has 1,000 bytes of the 3,072 allowed.
 */
export const fleetMigration: Migration = {
  number: 7,
  name: 'fleet',
  statements: [
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
  ],
}
