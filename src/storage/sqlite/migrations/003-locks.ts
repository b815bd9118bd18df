import type { Migration } from '../../migration-plan.ts'

/**
 * Fair lines. A line's row is there while somebody holds it, waits for it or may still ask how it ended, and says how
 * many rows stand beside it, so that a lock nobody waits for is taken and given back by its row alone. Leases count in
 * milliseconds of the host's monotonic clock; `since` and `last_at` are instants of the wall clock. The shards' last
 * tokens are never deleted.
 */
export const locks: Migration = {
  number: 3,
  name: 'locks',
  statements: [
    `CREATE TABLE lock_line (
      line INTEGER PRIMARY KEY,
      namespace TEXT NOT NULL,
      operation TEXT NOT NULL,
      resource TEXT NOT NULL,
      attempt INTEGER NOT NULL,
      grant_from INTEGER NOT NULL,
      revision INTEGER NOT NULL,
      due_at INTEGER,
      waiter_count INTEGER NOT NULL DEFAULT 0,
      outcome_count INTEGER NOT NULL DEFAULT 0,
      holder_node TEXT,
      holder_request_id TEXT,
      token INTEGER,
      holder_attempt INTEGER,
      holder_since INTEGER,
      holder_ttl_ms INTEGER,
      lease_ends_at INTEGER,
      take_up_by INTEGER,
      holder_seq INTEGER,
      progress TEXT,
      last_outcome TEXT,
      last_node TEXT,
      last_attempt INTEGER,
      last_at INTEGER,
      last_value TEXT
    ) STRICT`,
    `CREATE UNIQUE INDEX lock_line_key ON lock_line (namespace, operation, resource)`,
    `CREATE INDEX lock_line_due ON lock_line (due_at) WHERE due_at IS NOT NULL`,
    `CREATE INDEX lock_line_idle ON lock_line (last_at) WHERE holder_node IS NULL AND waiter_count = 0`,
    `CREATE TABLE lock_waiter (
      line INTEGER NOT NULL,
      seq INTEGER NOT NULL,
      node TEXT NOT NULL,
      request_id TEXT NOT NULL,
      want TEXT NOT NULL,
      ttl_ms INTEGER NOT NULL,
      since INTEGER NOT NULL,
      lease_ends_at INTEGER NOT NULL,
      deadline_at INTEGER,
      is_streamed INTEGER NOT NULL,
      PRIMARY KEY (line, seq)
    ) STRICT, WITHOUT ROWID`,
    `CREATE UNIQUE INDEX lock_waiter_requester ON lock_waiter (line, node, request_id)`,
    `CREATE INDEX lock_waiter_who ON lock_waiter (node, request_id)`,
    `CREATE INDEX lock_waiter_lease ON lock_waiter (lease_ends_at)`,
    `CREATE INDEX lock_waiter_deadline ON lock_waiter (deadline_at) WHERE deadline_at IS NOT NULL`,
    `CREATE TABLE lock_outcome (
      line INTEGER NOT NULL,
      node TEXT NOT NULL,
      request_id TEXT NOT NULL,
      seq INTEGER NOT NULL,
      kind TEXT NOT NULL,
      value TEXT,
      is_told INTEGER NOT NULL,
      kept_until INTEGER NOT NULL,
      revision INTEGER NOT NULL,
      PRIMARY KEY (line, node, request_id)
    ) STRICT, WITHOUT ROWID`,
    `CREATE INDEX lock_outcome_kept ON lock_outcome (kept_until)`,
    `CREATE TABLE lock_shard (
      shard INTEGER NOT NULL PRIMARY KEY,
      last_token INTEGER NOT NULL
    ) STRICT`,
  ],
}
