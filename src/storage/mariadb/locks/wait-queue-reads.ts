import type {
  LockKey,
  WaitingHolder,
  WaitQueueQuery,
  WaitQueueSummary,
  WaitQueueView,
} from '../../../locks/index.ts'
import { maxWaitingHolders, nameWaitQueue } from '../../sql/locks/wait-queue-key.ts'
import {
  decodeLast,
  decodeSummary,
  decodeWaitingHolder,
  lastColumns,
  type StoredLast,
  type StoredSummary,
  type StoredWaiter,
  type StoredWaitingHolder,
} from '../../sql/locks/wait-queue-record.ts'
import { type Calls, commit, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { LockTables } from '../tables.ts'

const shown = `l.operation, l.resource, l.waiter_count, l.holder_node, l.holder_request_id, l.holder_attempt,
  l.holder_since, l.lease_ends_at, l.progress, ${nowMs} AS now`

/** A wait queue at one moment: both looks see the same. */
export function inspectQueue(
  calls: Calls,
  tables: LockTables,
  namespace: string,
  key: LockKey,
  limit: number,
): Promise<WaitQueueView | undefined> {
  const { queueKey } = nameWaitQueue(namespace, key)
  return calls.run('look at a lock', async (call) => {
    const [, , [row], waiters] = (await call.packet([
      ['SET TRANSACTION ISOLATION LEVEL REPEATABLE READ', []],
      ['START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY', []],
      [
        `SELECT ${shown}, l.revision, ${lastColumns.join(', ')} FROM ${tables.queue} l WHERE l.queue_key = ?`,
        [queueKey],
      ],
      [
        `SELECT node, request_id, since, want FROM ${tables.waiter} WHERE queue_key = ? ORDER BY seq LIMIT ?`,
        [queueKey, limit],
      ],
      commit,
    ])) as [unknown, unknown, (StoredSummary & StoredLast & { revision: number })[], StoredWaiter[]]
    if (!row) return undefined
    return {
      ...decodeSummary(row),
      revision: row.revision,
      waiters: waiters.map(({ node, request_id: requestId, since, want }, index) => ({
        node,
        requestId,
        position: index + 1,
        since: Number(since),
        want,
      })),
      lastOutcome: decodeLast(row),
    }
  })
}

export async function findWaitingHolders(
  calls: Calls,
  { queue, waiter }: LockTables,
  namespace: string,
  keys: readonly LockKey[],
): Promise<readonly WaitingHolder[]> {
  if (keys.length === 0) return []
  return calls.run('look for deadlocks', async (call) => {
    const rows = await call.rows<StoredWaitingHolder>(
      `SELECT h.operation, h.resource, h.holder_node AS node, h.holder_request_id AS request_id, h.token, w.seq,
          l.operation AS for_operation, l.resource AS for_resource
        FROM ${queue} h
        STRAIGHT_JOIN ${waiter} w
          ON w.namespace = ? AND w.node = h.holder_node AND w.request_id = h.holder_request_id
        STRAIGHT_JOIN ${queue} l ON l.queue_key = w.queue_key
        WHERE h.queue_key IN (?) AND h.lease_ends_at > ${nowMs} LIMIT ?`,
      [namespace, keys.map((key) => nameWaitQueue(namespace, key).queueKey), maxWaitingHolders],
    )
    return rows.map(decodeWaitingHolder)
  })
}

/** By operation and resource, in the order of bytes. */
export function listQueues(
  calls: Calls,
  { queue }: LockTables,
  namespace: string,
  { operation, search, limit, after }: WaitQueueQuery,
): Promise<readonly WaitQueueSummary[]> {
  const conditions: Statement[] = [['namespace = ? AND idle_since IS NULL', [namespace]]]
  if (operation !== undefined) conditions.push(['operation = ?', [operation]])
  if (search !== undefined) conditions.push(['LOCATE(?, resource) > 0', [search]])
  if (after !== undefined) {
    conditions.push(['operation >= ?', [after.operation]])
    conditions.push(['(operation > ? OR resource > ?)', [after.operation, after.resource]])
  }
  // Those of the page are chosen first, without what may be large in their rows.
  const page = `SELECT queue_key FROM ${queue} FORCE INDEX (lock_queue_idle)
    WHERE ${conditions.map(([text]) => text).join(' AND ')} ORDER BY operation, resource LIMIT ?`
  return calls.run('list locks', async (call) => {
    // Else sorting would look at the first 1,024 bytes of a name only.
    const rows = await call.rows<StoredSummary>(
      `SET STATEMENT max_sort_length = 4096 FOR SELECT ${shown} FROM (${page}) page JOIN ${queue} l ON l.queue_key = page.queue_key
        ORDER BY l.operation, l.resource`,
      [...conditions.flatMap(([, values]) => values), limit],
    )
    return rows.map(decodeSummary)
  })
}
