import type { LineResult, LineWrites } from '../../sql/wait-queue-book.ts'
import type { LineName } from '../../sql/wait-queue-key.ts'
import {
  lastColumns,
  lastValues,
  lineColumns,
  lineValues,
  waiterColumns,
  waiterDueAt,
} from '../../sql/wait-queue-record.ts'
import type { Statement } from '../connection/calls.ts'
import type { LockTables } from '../tables.ts'

/** What a transaction has to write on its line, in the order in which it must be written. */
export function encodeWrites(tables: LockTables, line: LineName, writes: LineWrites): readonly Statement[] {
  const { waiter, outcome } = tables
  const { lineKey, namespace } = line
  const statements: Statement[] = []
  if (writes.goneSeqs.length > 0) {
    statements.push([`DELETE FROM ${waiter} WHERE queue_key = ? AND seq IN (?)`, [lineKey, writes.goneSeqs]])
  }
  if (writes.waiters.length > 0) {
    const rows = writes.waiters.map((w) => [
      ...[lineKey, namespace, w.node, w.requestId, w.seq, w.want, w.ttlMs, w.since],
      ...[w.leaseEndsAt, w.deadlineAt, w.isStreamed, waiterDueAt(w)],
    ])
    statements.push([
      `INSERT INTO ${waiter} (queue_key, namespace, ${waiterColumns.join(', ')}, due_at) VALUES ?
        ON DUPLICATE KEY UPDATE ${given([...waiterColumns.slice(2), 'due_at'])}`,
      [rows],
    ])
  }
  for (const { node, requestId } of writes.goneOutcomes) {
    statements.push([
      `DELETE FROM ${outcome} WHERE queue_key = ? AND node = ? AND request_id = ?`,
      [lineKey, node, requestId],
    ])
  }
  for (const result of writes.results) statements.push(encodeResult(tables, line, result))
  if (writes.outcomes.length > 0) {
    const rows = writes.outcomes.map((o) => [
      ...[lineKey, namespace, o.node, o.requestId, o.kind, o.seq, o.isTold, o.keptUntil, o.revision],
    ])
    statements.push([
      `INSERT INTO ${outcome} (queue_key, namespace, node, request_id, ${outcomeColumns.join(', ')}) VALUES ?
        ON DUPLICATE KEY UPDATE ${given(outcomeColumns)}`,
      [rows],
    ])
  }
  if (writes.line) statements.push(encodeLine(tables, line, writes.line))
  return statements
}

/** What has not changed is not written again: progress, and how it last ended, may be large. */
function encodeLine(
  { line: table }: LockTables,
  { lineKey }: LineName,
  save: NonNullable<LineWrites['line']>,
): Statement {
  const changing = lineColumns.slice(0, save.writesProgress ? undefined : -1)
  const isOver = save.row.lastOutcome !== null
  const columns = [...changing, ...(isOver ? lastColumns : [])]
  return [
    `UPDATE ${table} SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE queue_key = ?`,
    [...lineValues(save).slice(0, changing.length), ...(isOver ? lastValues(save) : []), lineKey],
  ]
}

export function encodeResult(
  { result }: LockTables,
  { lineKey, namespace }: LineName,
  { revision, value, keptUntil }: LineResult,
): Statement {
  return [
    `INSERT INTO ${result} (queue_key, namespace, revision, value, kept_until) VALUES (?, ?, ?, ?, ?)
      ON DUPLICATE KEY UPDATE kept_until = VALUES(kept_until)`,
    [lineKey, namespace, revision, value, keptUntil],
  ]
}

const outcomeColumns = ['kind', 'seq', 'is_told', 'kept_until', 'revision']

function given(columns: readonly string[]): string {
  return columns.map((column) => `${column} = VALUES(${column})`).join(', ')
}
