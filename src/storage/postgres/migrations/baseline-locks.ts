/**
 * Locks. A wait queue is a row of `lock_queue`; its waiters are in `lock_waiter`, the outcomes of those who left in
 * `lock_outcome`, and a result that many waiters share is in `lock_result` once for all of them. The names of a queue are too
 * wide for an index, so it is found by their SHA-256, `queue_key`.
 *
 * A transaction that changes a queue holds the advisory lock of its `queue_key` until the commit. `waiter_count` and
 * `idle_since` (when the lock was last released, once it has no holder and no waiter) find queues without reading waiters.
 *
 * `lock_shard` has the last token of each 64th part of the resources. Its rows are never deleted: tokens rise for ever, also
 * when a queue was forgotten. They are few and written all the time, so their pages are left empty for new versions.
 */
export function locks(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.lock_queue (
  queue_key ${text} PRIMARY KEY,
  namespace ${text} NOT NULL,
  operation ${text} NOT NULL,
  resource ${text} NOT NULL,
  attempt integer NOT NULL,
  grant_from bigint NOT NULL,
  revision bigint NOT NULL,
  waiter_count integer NOT NULL,
  due_at bigint,
  holder_node text,
  holder_request_id text,
  token bigint,
  holder_attempt integer,
  holder_since bigint,
  holder_ttl_ms bigint,
  lease_ends_at bigint,
  take_up_by bigint,
  holder_seq bigint,
  progress text,
  last_outcome text CHECK (last_outcome IN ('success', 'failure')),
  last_node text,
  last_attempt integer,
  last_at bigint,
  last_value text,
  idle_since bigint GENERATED ALWAYS AS
    (CASE WHEN holder_node IS NULL AND waiter_count = 0 THEN coalesce(last_at, 0) END) STORED
)`,
    `CREATE INDEX lock_queue_due ON ${s}.lock_queue (namespace, due_at) WHERE due_at IS NOT NULL`,
    `CREATE INDEX lock_queue_idle ON ${s}.lock_queue (namespace, idle_since) WHERE idle_since IS NOT NULL`,
    // A resource has up to 1,024 characters, too many for an index; its beginning sorts most of them.
    `CREATE INDEX lock_queue_busy ON ${s}.lock_queue (namespace, operation, (left(resource, 191)))
  WHERE idle_since IS NULL`,

    `CREATE TABLE ${s}.lock_waiter (
  queue_key ${text} NOT NULL,
  namespace ${text} NOT NULL,
  node ${text} NOT NULL,
  request_id ${text} NOT NULL,
  seq bigint NOT NULL,
  want ${text} NOT NULL CHECK (want IN ('result', 'turn')),
  ttl_ms bigint NOT NULL,
  since bigint NOT NULL,
  lease_ends_at bigint NOT NULL,
  deadline_at bigint,
  is_streamed boolean NOT NULL,
  due_at bigint NOT NULL,
  PRIMARY KEY (queue_key, seq)
)`,
    `CREATE UNIQUE INDEX lock_waiter_requester ON ${s}.lock_waiter (queue_key, node, request_id)`,
    `CREATE INDEX lock_waiter_who ON ${s}.lock_waiter (namespace, node, request_id)`,
    `CREATE INDEX lock_waiter_due ON ${s}.lock_waiter (namespace, due_at)`,

    `CREATE TABLE ${s}.lock_outcome (
  queue_key ${text} NOT NULL,
  namespace ${text} NOT NULL,
  node ${text} NOT NULL,
  request_id ${text} NOT NULL,
  kind ${text} NOT NULL CHECK (kind IN ('completed', 'failed', 'timeout', 'evicted', 'lost')),
  seq bigint NOT NULL,
  is_notified boolean NOT NULL,
  kept_until bigint NOT NULL,
  revision bigint NOT NULL,
  PRIMARY KEY (queue_key, node, request_id)
)`,
    `CREATE INDEX lock_outcome_kept ON ${s}.lock_outcome (namespace, kept_until)`,
    `CREATE TABLE ${s}.lock_result (
  queue_key ${text} NOT NULL,
  revision bigint NOT NULL,
  namespace ${text} NOT NULL,
  value text NOT NULL,
  kept_until bigint NOT NULL,
  PRIMARY KEY (queue_key, revision)
)`,
    `CREATE INDEX lock_result_kept ON ${s}.lock_result (namespace, kept_until)`,

    `CREATE TABLE ${s}.lock_shard (shard integer PRIMARY KEY, last_token bigint NOT NULL) WITH (fillfactor = 10)`,
    `INSERT INTO ${s}.lock_shard (shard, last_token) SELECT shard, 0 FROM generate_series(0, 63) shard`,
  ]
}
