import type { Migration } from '../../migration-plan.ts'

/** What operators did: read newest first, by action or by actor; forgotten by age. */
export function audit(s: string): Migration {
  const text = 'text COLLATE "C"'
  return {
    number: 6,
    name: 'audit',
    statements: [
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
    ],
  }
}
