import type { Migration } from '../../migration-plan.ts'

/**
 * Who may come in, and requests that must not be done twice. A token's id is unique over all namespaces, because it is
 * what a bearer shows before anybody knows its namespace.
 */
export const access: Migration = {
  number: 2,
  name: 'access',
  statements: [
    `CREATE TABLE access_token (
      namespace TEXT NOT NULL,
      id TEXT NOT NULL PRIMARY KEY,
      name TEXT NOT NULL,
      scope TEXT NOT NULL,
      digest TEXT NOT NULL,
      created_at INTEGER NOT NULL,
      expires_at INTEGER,
      revoked_at INTEGER
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
  ],
}
