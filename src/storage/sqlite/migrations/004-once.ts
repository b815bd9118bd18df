import type { Migration } from '../../migration-plan.ts'

/**
 * Guards and windows. Both have an integer key: their own keys come in no order, and so do not drag whole rows through
 * the tree with them. A guard is found for pruning by when it is over: one that runs, a while after its lease, so that
 * its attempts are remembered; one that is or may become stuck, never.
 */
export const once: Migration = {
  number: 4,
  name: 'once',
  statements: [
    `CREATE TABLE once_guard (
      guard INTEGER PRIMARY KEY,
      namespace TEXT NOT NULL,
      space TEXT NOT NULL,
      guard_key TEXT NOT NULL,
      status TEXT NOT NULL,
      mode TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      token_no INTEGER NOT NULL,
      token_nonce TEXT NOT NULL,
      fingerprint TEXT,
      result TEXT,
      claimed_at INTEGER NOT NULL,
      keep_ms INTEGER NOT NULL,
      ends_at INTEGER NOT NULL
    ) STRICT`,
    `CREATE UNIQUE INDEX once_guard_key ON once_guard (namespace, space, guard_key)`,
    `CREATE INDEX once_guard_over
      ON once_guard (namespace, CASE status WHEN 'running' THEN ends_at + keep_ms ELSE ends_at END)
      WHERE status <> 'running' OR mode = 'at-least-once'`,
    `CREATE TABLE once_window (
      seen INTEGER PRIMARY KEY,
      namespace TEXT NOT NULL,
      window_key TEXT NOT NULL,
      value TEXT NOT NULL,
      ends_at INTEGER NOT NULL
    ) STRICT`,
    `CREATE UNIQUE INDEX once_window_key ON once_window (namespace, window_key)`,
    `CREATE INDEX once_window_over ON once_window (namespace, ends_at)`,
  ],
}
