import { lastColumns, queueColumns, waiterColumns } from '../../sql/locks/wait-queue-record.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'

/** Every statement on a wait queue that is locked; namespaces share them. */
export type WaitQueueStatements = Record<
  | 'lock'
  | 'tryLock'
  | 'open'
  | 'head'
  | 'atPositions'
  | 'findWaiter'
  | 'findOutcome'
  | 'countBefore'
  | 'mint'
  | 'saveQueue'
  | 'saveWaiters'
  | 'removeWaiters'
  | 'saveOutcomes'
  | 'removeOutcome'
  | 'saveResult'
  | 'dissolve',
  Statement
>

/**
 * A process that stands still inside a transaction must not keep others from the wait queue for long: the server ends it. The
 * others have waited for less than their deadline then.
 */
const soonOver = `set_config('idle_in_transaction_session_timeout', '5s', true)`

export function waitQueueStatements(s: string): WaitQueueStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_line_${name}`, text })
  const waiter = waiterColumns.map((column) => `w.${column}`).join(', ')
  return {
    // In a statement of its own, before the wait queue is read: each statement sees what was committed when it began.
    lock: named('lock', `SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0)), ${soonOver}`),
    tryLock: named(
      'try_lock',
      `SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 0)) AS got, ${soonOver}`,
    ),
    open: named(
      'open',
      `
SELECT clock.now, l.queue_key, EXISTS (SELECT FROM ${s}.lock_outcome o WHERE o.queue_key = $1) AS has_outcomes,
       ${queueColumns.map((column) => `l.${column}`).join(', ')}
FROM (SELECT ${nowMs} AS now) clock LEFT JOIN ${s}.lock_queue l ON l.queue_key = $1`,
    ),
    head: named(
      'head',
      `SELECT ${waiter} FROM ${s}.lock_waiter w WHERE w.queue_key = $1 ORDER BY w.seq LIMIT $2`,
    ),
    atPositions: named(
      'at_positions',
      `SELECT ${waiter} FROM ${s}.lock_waiter w WHERE w.queue_key = $1 AND w.seq = ANY ($2::bigint[])`,
    ),
    findWaiter: named(
      'find_waiter',
      `
SELECT ${waiter},
       (SELECT count(*) FROM ${s}.lock_waiter b WHERE b.queue_key = w.queue_key AND b.seq < w.seq) AS before
FROM ${s}.lock_waiter w WHERE w.queue_key = $1 AND w.node = $2 AND w.request_id = $3`,
    ),
    findOutcome: named(
      'find_outcome',
      `
SELECT o.kind, o.seq, o.is_told, o.kept_until, o.revision, r.value
FROM ${s}.lock_outcome o
LEFT JOIN ${s}.lock_result r ON r.queue_key = o.queue_key AND r.revision = o.revision
WHERE o.queue_key = $1 AND o.node = $2 AND o.request_id = $3`,
    ),
    countBefore: named(
      'count_before',
      `SELECT count(*) AS before FROM ${s}.lock_waiter WHERE queue_key = $1 AND seq < $2`,
    ),
    mint: named(
      'mint',
      `
UPDATE ${s}.lock_shard
SET last_token = greatest(last_token + 1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
WHERE shard = $1 RETURNING last_token`,
    ),
    ...writingStatements(s, named),
  }
}

type Writing = Extract<keyof WaitQueueStatements, `save${string}` | `remove${string}` | 'dissolve'>

function writingStatements(
  s: string,
  named: (name: string, text: string) => Statement,
): Record<Writing, Statement> {
  const queueNames = ['queue_key', 'namespace', 'operation', 'resource', ...queueColumns, ...lastColumns]
  const placeholders = (names: readonly string[]) => names.map((_, index) => `$${index + 1}`).join(', ')
  const given = (names: readonly string[]) => names.map((name) => `${name} = excluded.${name}`).join(', ')
  const changing = queueColumns.filter((column) => column !== 'progress')
  const outcome = ['kind', 'seq', 'is_told', 'kept_until', 'revision']
  return {
    // What is not written again keeps its position outside the row, however large it is.
    saveQueue: named(
      'save',
      `
INSERT INTO ${s}.lock_queue AS l (${queueNames.join(', ')}) VALUES (${placeholders(queueNames)})
ON CONFLICT (queue_key) DO UPDATE SET ${given(changing)},
  progress = CASE WHEN $${queueNames.length + 1}::boolean THEN excluded.progress ELSE l.progress END,
  ${lastColumns.map((name) => `${name} = CASE WHEN excluded.last_outcome IS NULL THEN l.${name} ELSE excluded.${name} END`).join(',\n  ')}`,
    ),
    saveWaiters: named(
      'save_waiters',
      `
INSERT INTO ${s}.lock_waiter (queue_key, namespace, ${waiterColumns.join(', ')}, due_at)
SELECT $1, $2, w.* FROM unnest($3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[],
  $9::bigint[], $10::bigint[], $11::boolean[], $12::bigint[]) w
ON CONFLICT (queue_key, node, request_id) DO UPDATE SET ${given([...waiterColumns.slice(2), 'due_at'])}`,
    ),
    removeWaiters: named(
      'remove_waiters',
      `DELETE FROM ${s}.lock_waiter WHERE queue_key = $1 AND seq = ANY ($2::bigint[])`,
    ),
    saveOutcomes: named(
      'save_outcomes',
      `
INSERT INTO ${s}.lock_outcome (queue_key, namespace, node, request_id, ${outcome.join(', ')})
SELECT $1, $2, o.* FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::boolean[], $8::bigint[],
  $9::bigint[]) o
ON CONFLICT (queue_key, node, request_id) DO UPDATE SET ${given(outcome)}`,
    ),
    removeOutcome: named(
      'remove_outcome',
      `DELETE FROM ${s}.lock_outcome WHERE queue_key = $1 AND node = $2 AND request_id = $3`,
    ),
    saveResult: named(
      'save_result',
      `
INSERT INTO ${s}.lock_result (queue_key, namespace, revision, value, kept_until) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING`,
    ),
    dissolve: named(
      'dissolve',
      `
WITH gone AS (
  DELETE FROM ${s}.lock_waiter WHERE queue_key = $1 AND ($3::boolean OR want = 'result')
  RETURNING node, request_id, seq
), told AS (
  INSERT INTO ${s}.lock_outcome (queue_key, namespace, node, request_id, ${outcome.join(', ')})
  SELECT $1, $2, node, request_id, $4, seq, $5::boolean, $6::bigint, $7::bigint FROM gone
  ON CONFLICT (queue_key, node, request_id) DO UPDATE SET ${given(outcome)}
)
SELECT count(*) AS count FROM gone`,
    ),
  }
}
