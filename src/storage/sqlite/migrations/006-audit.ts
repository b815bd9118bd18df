import type { Migration } from '../../migration-plan.ts'

/** What operators did: read newest first, by action or by actor; forgotten by age. */
export const audit: Migration = {
  number: 6,
  name: 'audit',
  statements: [
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
  ],
}
