import type { WaitQueueResult, WaitQueueWrites } from '../../sql/locks/wait-queue-buffer.ts'
import type { WaitQueueName } from '../../sql/locks/wait-queue-key.ts'
import {
  lastColumns,
  lastValues,
  queueColumns,
  queueValues,
  waiterColumns,
  waiterDueAt,
} from '../../sql/locks/wait-queue-record.ts'
import type { Statement } from '../connection/calls.ts'
import type { LockTables } from '../tables.ts'

/** What a transaction has to write on its wait queue, in the order in which it must be written. */
export function encodeWrites(
  tables: LockTables,
  queue: WaitQueueName,
  writes: WaitQueueWrites,
): readonly Statement[] {
  const { waiter, outcome } = tables
  const { queueKey, namespace } = queue
  const statements: Statement[] = []
  if (writes.goneSeqs.length > 0) {
    statements.push([`DELETE FROM ${waiter} WHERE queue_key = ? AND seq IN (?)`, [queueKey, writes.goneSeqs]])
  }
  if (writes.waiters.length > 0) {
    const rows = writes.waiters.map((w) => [
      ...[queueKey, namespace, w.node, w.requestId, w.seq, w.want, w.ttlMs, w.since],
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
      [queueKey, node, requestId],
    ])
  }
  for (const result of writes.results) statements.push(encodeResult(tables, queue, result))
  if (writes.outcomes.length > 0) {
    const rows = writes.outcomes.map((o) => [
      ...[queueKey, namespace, o.node, o.requestId, o.kind, o.seq, o.isTold, o.keptUntil, o.revision],
    ])
    statements.push([
      `INSERT INTO ${outcome} (queue_key, namespace, node, request_id, ${outcomeColumns.join(', ')}) VALUES ?
        ON DUPLICATE KEY UPDATE ${given(outcomeColumns)}`,
      [rows],
    ])
  }
  if (writes.queue) statements.push(encodeQueue(tables, queue, writes.queue))
  return statements
}

/** What has not changed is not written again: progress, and how it last ended, may be large. */
function encodeQueue(
  { queue: table }: LockTables,
  { queueKey }: WaitQueueName,
  save: NonNullable<WaitQueueWrites['queue']>,
): Statement {
  const changing = queueColumns.slice(0, save.writesProgress ? undefined : -1)
  const isOver = save.row.lastOutcome !== null
  const columns = [...changing, ...(isOver ? lastColumns : [])]
  return [
    `UPDATE ${table} SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE queue_key = ?`,
    [...queueValues(save).slice(0, changing.length), ...(isOver ? lastValues(save) : []), queueKey],
  ]
}

export function encodeResult(
  { result }: LockTables,
  { queueKey, namespace }: WaitQueueName,
  { revision, value, keptUntil }: WaitQueueResult,
): Statement {
  return [
    `INSERT INTO ${result} (queue_key, namespace, revision, value, kept_until) VALUES (?, ?, ?, ?, ?)
      ON DUPLICATE KEY UPDATE kept_until = VALUES(kept_until)`,
    [queueKey, namespace, revision, value, keptUntil],
  ]
}

const outcomeColumns = ['kind', 'seq', 'is_told', 'kept_until', 'revision']

function given(columns: readonly string[]): string {
  return columns.map((column) => `${column} = VALUES(${column})`).join(', ')
}
