/**
 * Guards: a row of `once_guard` for each key that is running, done or failed, and of `once_window` for each window. Every
 * statement treats rows past their time as absent; deleting them only saves disk space.
 * `opened_by` is a random number of the call that opened the window.
 */
export function once(s: string): readonly string[] {
  const text = 'text COLLATE "C"'
  return [
    `CREATE TABLE ${s}.once_guard (
  namespace ${text} NOT NULL,
  space ${text} NOT NULL,
  guard_key ${text} NOT NULL,
  status ${text} NOT NULL CHECK (status IN ('running', 'done', 'failed')),
  mode ${text} NOT NULL CHECK (mode IN ('at-least-once', 'at-most-once')),
  attempt integer NOT NULL,
  token_no bigint NOT NULL,
  token_nonce ${text} NOT NULL,
  fingerprint ${text},
  result text,
  claimed_at bigint NOT NULL,
  keep_ms bigint NOT NULL,
  ends_at bigint NOT NULL,
  forget_at bigint GENERATED ALWAYS AS (CASE
    WHEN status <> 'running' THEN ends_at
    WHEN mode = 'at-least-once' THEN ends_at + keep_ms
  END) STORED,
  PRIMARY KEY (namespace, space, guard_key)
)`,
    // An expired claim is remembered like a failed one; `forget_at` of one that may be stuck is null.
    `CREATE INDEX once_guard_forget ON ${s}.once_guard (namespace, forget_at) WHERE forget_at IS NOT NULL`,

    `CREATE TABLE ${s}.once_window (
  namespace ${text} NOT NULL,
  window_key ${text} NOT NULL,
  value ${text} NOT NULL,
  opened_by ${text} NOT NULL DEFAULT '',
  opened_at bigint NOT NULL DEFAULT 0,
  ends_at bigint NOT NULL,
  PRIMARY KEY (namespace, window_key)
)`,
    `CREATE INDEX once_window_over ON ${s}.once_window (namespace, ends_at)`,
  ]
}
