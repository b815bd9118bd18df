import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'

/** Every statement on guards; namespaces share them. migrations/baseline-once.ts says how the tables and functions work. */
export type GuardStatements = Record<
  'here' | 'claim' | 'settle' | 'renew' | 'forget' | 'seen' | 'list' | 'pruneGuards' | 'pruneWindows',
  Statement
>

/** When a guard is forgotten: as the index on it says it. */
const keptUntil = `CASE WHEN status = 'running' THEN ends_at + keep_ms ELSE ends_at END`
const maybeStuck = `(status = 'running' AND mode = 'at-most-once')`

/** The statements for a schema, whose name comes quoted. */
export function guardStatements(s: string): GuardStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_guard_${name}`, text })
  return {
    here: named('here', `SELECT FROM ${s}.signalbox_meta WHERE key = 'store_id' AND value = $1`),
    claim: named(
      'claim',
      `
SELECT * FROM ${s}.signalbox_claim_guards($1, $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
  $7::text[], $8::text[], $9)`,
    ),
    settle: named(
      'settle',
      `
SELECT nr FROM ${s}.signalbox_settle_guards($1, $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[],
  $7::text[]) nr`,
    ),
    renew: named(
      'renew',
      `
UPDATE ${s}.once_guard SET ends_at = greatest(ends_at, ${nowMs} + $6::bigint)
WHERE namespace = $1 AND space = $2 AND guard_key = $3 AND status = 'running' AND token_no = $4::bigint
  AND token_nonce = $5 AND (ends_at > ${nowMs} OR mode = 'at-most-once')
RETURNING ends_at`,
    ),
    forget: named(
      'forget',
      `
DELETE FROM ${s}.once_guard WHERE namespace = $1 AND space = $2 AND guard_key = $3
RETURNING (${maybeStuck} OR ${keptUntil} > ${nowMs}) AS was_there`,
    ),
    // What is not answered was told within its window.
    seen: named(
      'seen',
      `
INSERT INTO ${s}.once_window AS w (namespace, window_key, value, ends_at)
SELECT $1, g.window_key COLLATE "C" AS in_key, g.value, ${nowMs} + coalesce(g.window_ms, ($4::bigint[])[1])
FROM unnest($2::text[], $3::text[], $4::bigint[]) g (window_key, value, window_ms)
ORDER BY in_key
ON CONFLICT (namespace, window_key) DO UPDATE SET value = excluded.value, ends_at = excluded.ends_at
WHERE w.ends_at <= ${nowMs} OR w.value <> excluded.value
RETURNING w.window_key`,
    ),
    list: named(
      'list',
      `
SELECT k.guard_key, k.status, k.mode, k.attempt, k.claimed_at, k.ends_at, k.keep_ms, clock.now
FROM (SELECT ${nowMs} AS now) clock, ${s}.once_guard k
WHERE k.namespace = $1 AND k.space = $2 AND k.guard_key > $3 AND strpos(k.guard_key, $4) > 0
  AND (${maybeStuck} OR ${keptUntil} > clock.now)
ORDER BY k.guard_key LIMIT $5`,
    ),
    pruneGuards: named(
      'prune',
      `
DELETE FROM ${s}.once_guard WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM ${s}.once_guard
  WHERE namespace = $1 AND NOT ${maybeStuck} AND ${keptUntil} <= (SELECT ${nowMs})
  ORDER BY ${keptUntil} LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    ),
    pruneWindows: named(
      'prune_windows',
      `
DELETE FROM ${s}.once_window WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM ${s}.once_window WHERE namespace = $1 AND ends_at <= (SELECT ${nowMs})
  ORDER BY ends_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    ),
  }
}
