import type { Migration } from '../../migration-plan.ts'

/** What operators did: read newest first, by action or by actor; forgotten by age. The widest key has 1,784 bytes. */
export const auditMigration: Migration = {
  number: 6,
  name: 'audit',
  statements: [
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
  ],
}
