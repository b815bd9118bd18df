/**
 * Locks, guards and windows.
 *
 * A wait queue's row is there while a lock is held, awaited or has outcomes that waiters may still ask for. It counts the rows
 * beside it, so that a lock without waiters is taken and given back by its row alone. Leases count in milliseconds of the
 * host's monotonic clock; `since` and `last_at` are instants of the wall clock. The last tokens in `lock_shard` are never
 * deleted.
 *
 * Guards and windows have an integer key: their own keys come in no order, and so do not move whole rows through the tree.
 * A guard is found for pruning by `forget_at`. A running one is forgotten some time after its lease, so that its attempts
 * are remembered; one that is or may become stuck is never forgotten. `opened_by` is a random number of the call that opened
 * the window.
 */
export const locks: readonly string[] = [
  `CREATE TABLE lock_queue (
    queue_id INTEGER PRIMARY KEY,
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
  `CREATE UNIQUE INDEX lock_queue_key ON lock_queue (namespace, operation, resource)`,
  `CREATE INDEX lock_queue_due ON lock_queue (due_at) WHERE due_at IS NOT NULL`,
  `CREATE INDEX lock_queue_idle ON lock_queue (last_at) WHERE holder_node IS NULL AND waiter_count = 0`,
  `CREATE TABLE lock_waiter (
    queue_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    node TEXT NOT NULL,
    request_id TEXT NOT NULL,
    want TEXT NOT NULL,
    ttl_ms INTEGER NOT NULL,
    since INTEGER NOT NULL,
    lease_ends_at INTEGER NOT NULL,
    deadline_at INTEGER,
    is_streamed INTEGER NOT NULL,
    PRIMARY KEY (queue_id, seq)
  ) STRICT, WITHOUT ROWID`,
  `CREATE UNIQUE INDEX lock_waiter_requester ON lock_waiter (queue_id, node, request_id)`,
  `CREATE INDEX lock_waiter_who ON lock_waiter (node, request_id)`,
  `CREATE INDEX lock_waiter_lease ON lock_waiter (lease_ends_at)`,
  `CREATE INDEX lock_waiter_deadline ON lock_waiter (deadline_at) WHERE deadline_at IS NOT NULL`,
  `CREATE TABLE lock_outcome (
    queue_id INTEGER NOT NULL,
    node TEXT NOT NULL,
    request_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    value TEXT,
    is_notified INTEGER NOT NULL,
    kept_until INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (queue_id, node, request_id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE INDEX lock_outcome_kept ON lock_outcome (kept_until)`,
  `CREATE TABLE lock_shard (
    shard INTEGER NOT NULL PRIMARY KEY,
    last_token INTEGER NOT NULL
  ) STRICT`,
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
    ends_at INTEGER NOT NULL,
    forget_at INTEGER AS (CASE
      WHEN status <> 'running' THEN ends_at
      WHEN mode = 'at-least-once' THEN ends_at + keep_ms
    END) VIRTUAL
  ) STRICT`,
  `CREATE UNIQUE INDEX once_guard_key ON once_guard (namespace, space, guard_key)`,
  `CREATE INDEX once_guard_forget ON once_guard (namespace, forget_at) WHERE forget_at IS NOT NULL`,
  `CREATE TABLE once_window (
    seen INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    window_key TEXT NOT NULL,
    value TEXT NOT NULL,
    opened_by TEXT NOT NULL DEFAULT '',
    opened_at INTEGER NOT NULL DEFAULT 0,
    ends_at INTEGER NOT NULL
  ) STRICT`,
  `CREATE UNIQUE INDEX once_window_key ON once_window (namespace, window_key)`,
  `CREATE INDEX once_window_over ON once_window (namespace, ends_at)`,
]
