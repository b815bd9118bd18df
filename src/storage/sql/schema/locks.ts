import type { Table } from './table.ts'

const shards = Array.from({ length: 64 }, (_, shard) => `(${shard}, 0)`).join(', ')

/**
 * Locks, guards and windows.
 *
 * A wait queue is a row of `lock_queue`. The row exists while the lock is held or awaited, or while waiters may still
 * ask for an outcome. Its waiters are in `lock_waiter`, the outcomes of waits that ended in `lock_outcome`. On Postgres
 * and MariaDB `lock_result` has a result once for all its waiters. There the names of a queue are too wide for an
 * index, so it is found by their SHA-256, `queue_key`, and a transaction that changes a queue locks that key until the
 * commit. SQLite finds a queue by a number, and its row counts the rows of the other tables, so that acquiring and
 * releasing a lock without waiters touches only this row. There leases count in milliseconds of the host's monotonic
 * clock; `since` and `last_at` are wall-clock times.
 *
 * `waiter_count` and `idle_since` (the last release, if the lock has no holder and no waiter) find queues without
 * reading waiters. `lock_shard` has the last token of each 64th part of the resources, and on SQLite of all. Its rows
 * are never deleted: tokens rise for ever, even after a queue was deleted. The rows are few and written all the time,
 * so Postgres leaves space on their pages for new versions.
 *
 * A guard's `ends_at` is the end of its lease while it runs, and the end of its retention after that. The store may
 * delete it after `forget_at`: an expired lease counts as a failure at its expiry, and a running at-most-once guard is
 * never deleted. Every statement treats expired rows as absent; deleting them only saves disk space. `opened_by` is a
 * random number of the call that opened the window, so that each of many calls can see whether it opened it. On SQLite
 * guards and windows have an integer key: their own keys are in random order, and would move whole rows through the
 * tree.
 */
export const locks: readonly Table[] = [
  {
    name: 'lock_queue',
    columns: `
      [postgres mariadb] queue_key name(43), namespace name, operation name, resource name(1024),
      attempt int [mariadb] = 0, grant_from big [mariadb] = 0, revision big [mariadb] = 0, due_at big?,
      waiter_count int [mariadb sqlite] = 0, [sqlite] outcome_count int = 0,
      holder_node text(191)?, holder_request_id text(191)?, token big?, holder_attempt int?, holder_since big?,
      holder_ttl_ms big?, lease_ends_at big?, take_up_by big?, holder_seq big?, progress text?,
      [mariadb sqlite] last_outcome text(16)?,
      [postgres] last_outcome text CHECK (last_outcome IN ('success', 'failure')),
      last_node text(191)?, last_attempt int?, last_at big?, last_value text?,
      [postgres mariadb] idle_since big as (CASE WHEN holder_node IS NULL AND waiter_count = 0 THEN coalesce(last_at, 0) END)`,
    key: 'queue_key',
    keyOn: { sqlite: 'namespace, operation, resource' },
    sqliteNumber: 'queue_id',
    // A resource has up to 1,024 characters, too many for an index; its beginning sorts most of them.
    indexes: `
      [mariadb] lock_queue_due (namespace, due_at)
      [mariadb] lock_queue_idle (namespace, idle_since, operation, resource(191))
      [postgres] lock_queue_due (namespace, due_at) WHERE due_at IS NOT NULL
      [postgres] lock_queue_idle (namespace, idle_since) WHERE idle_since IS NOT NULL
      [postgres] lock_queue_busy (namespace, operation, (left(resource, 191))) WHERE idle_since IS NULL
      [sqlite] lock_queue_due (due_at) WHERE due_at IS NOT NULL
      [sqlite] lock_queue_idle (last_at) WHERE holder_node IS NULL AND waiter_count = 0`,
  },
  {
    name: 'lock_waiter',
    columns: `
      [postgres mariadb] queue_key name(43), [sqlite] queue_id int, seq big, [postgres mariadb] namespace name,
      node name, request_id name, [postgres] want enum(result|turn), [mariadb sqlite] want name(16), ttl_ms big,
      since big, lease_ends_at big, deadline_at big?, is_streamed bool, [postgres mariadb] due_at big`,
    key: 'queue_key, seq',
    keyOn: { sqlite: 'queue_id, seq' },
    indexes: `
      [postgres mariadb] unique lock_waiter_requester (queue_key, node, request_id)
      [postgres mariadb] lock_waiter_who (namespace, node, request_id)
      [postgres mariadb] lock_waiter_due (namespace, due_at)
      [sqlite] unique lock_waiter_requester (queue_id, node, request_id)
      [sqlite] lock_waiter_who (node, request_id)
      [sqlite] lock_waiter_lease (lease_ends_at)
      [sqlite] lock_waiter_deadline (deadline_at) WHERE deadline_at IS NOT NULL`,
  },
  {
    name: 'lock_outcome',
    columns: `
      [postgres mariadb] queue_key name(43), [sqlite] queue_id int, [postgres mariadb] namespace name, node name,
      request_id name, seq big, [postgres] kind enum(completed|failed|timeout|evicted|lost),
      [mariadb sqlite] kind name(16), [sqlite] value text?, is_notified bool, kept_until big, revision big`,
    key: 'queue_key, node, request_id',
    keyOn: { sqlite: 'queue_id, node, request_id' },
    indexes: `
      [postgres mariadb] lock_outcome_kept (namespace, kept_until)
      [sqlite] lock_outcome_kept (kept_until)`,
  },
  {
    name: 'lock_result',
    only: ['postgres', 'mariadb'],
    columns: 'queue_key name(43), revision big, namespace name, value text, kept_until big',
    key: 'queue_key, revision',
    indexes: 'lock_result_kept (namespace, kept_until)',
  },
  {
    name: 'lock_shard',
    columns: 'shard int, last_token big',
    key: 'shard',
    sqliteNumber: 'rowid',
    fillfactor: 10,
    rows: {
      postgres: `INSERT INTO @lock_shard (shard, last_token) VALUES ${shards}`,
      mariadb: `INSERT IGNORE INTO @lock_shard (shard, last_token) VALUES ${shards}`,
    },
  },
  {
    name: 'once_guard',
    columns: `
      namespace name, space name(32), guard_key name, status enum(running|done|failed),
      mode enum(at-least-once|at-most-once), attempt int, token_no big, token_nonce name(16), fingerprint name?, result text?, claimed_at big, keep_ms big, ends_at big,
      forget_at big as virtual (CASE WHEN status <> 'running' THEN ends_at
        WHEN mode = 'at-least-once' THEN ends_at + keep_ms END)`,
    key: 'namespace, space, guard_key',
    sqliteNumber: 'guard',
    indexes: `
      [mariadb] once_guard_forget (namespace, forget_at)
      [postgres sqlite] once_guard_forget (namespace, forget_at) WHERE forget_at IS NOT NULL`,
  },
  {
    name: 'once_window',
    columns: `
      namespace name, window_key name(64), value name(64), opened_by name(16) = '', opened_at big = 0, ends_at big`,
    key: 'namespace, window_key',
    sqliteNumber: 'seen',
    indexes: `
      [mariadb] once_window_ends (namespace, ends_at)
      [postgres sqlite] once_window_over (namespace, ends_at)`,
  },
]
