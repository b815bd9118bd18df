import type { Migration } from '../../migration-plan.ts'

/**
 * Who may come in, and requests that must not be done twice. A token's id is unique over all namespaces, because it is
 * what a bearer shows before anybody knows its namespace.
 *
 * A request's key is written in the transaction of its effect: first without an answer, so that its row is locked, and
 * at the end with it. Nobody ever sees one without. Its primary key has 2,548 bytes of the 3,072 allowed.
 */
export const accessMigration: Migration = {
  number: 2,
  name: 'access',
  statements: [
    `CREATE TABLE IF NOT EXISTS access_token (
  namespace VARCHAR(191) NOT NULL,
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  name VARCHAR(191) NOT NULL,
  scope ENUM ('read', 'work', 'admin') NOT NULL,
  digest VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NULL,
  revoked_at BIGINT NULL
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
  ],
}
