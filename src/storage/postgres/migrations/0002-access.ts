import type { Migration } from '../../migration-plan.ts'

/**
 * Who may come in, and requests that must not be done twice. A token's id is unique over all namespaces, because it is
 * what a bearer shows before anybody knows its namespace. A request's key is written in the transaction of its effect.
 */
export function access(s: string): Migration {
  const text = 'text COLLATE "C"'
  return {
    number: 2,
    name: 'access',
    statements: [
      `CREATE TABLE ${s}.access_token (
  namespace ${text} NOT NULL,
  id ${text} PRIMARY KEY,
  name text NOT NULL,
  scope ${text} NOT NULL CHECK (scope IN ('read', 'work', 'admin')),
  digest ${text} NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
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
    ],
  }
}
