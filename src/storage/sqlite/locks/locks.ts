import type {
  LockKey,
  LockStore,
  WaitingHolder,
  WaitQueueQuery,
  WaitQueueSummary,
  WaitQueueView,
} from '../../../locks/index.ts'
import {
  decodeLast,
  decodeSummary,
  decodeWaitingHolder,
  maxWaitingHolders,
  type SummaryRow,
  type WaitingHolderRow,
} from '../../sql/locks/wait-queue-record.ts'
import type { Connection } from '../connection/connection.ts'
import type { Reader } from '../connection/reader.ts'
import type { Writer } from '../writing/writes.ts'
import { readLeaseClock, readWallAhead } from './lease-clock.ts'
import { type LockSteps, maySweep } from './lock-steps.ts'

/** Locks of one namespace in SQLite. Steps go to the writer as names and plain data; views go to the reader. */
export function createSqliteLocks(
  namespace: string,
  writer: Writer,
  reader: Reader,
  check: () => void,
): LockStore {
  const step = <Name extends keyof LockSteps>(name: Name): LockSteps[Name] =>
    // The name of a step determines its types, and the writer returns the answer of that step.
    ((...args: unknown[]) =>
      writer.write({
        operation: 'lock',
        namespace,
        args: [name, args] as never,
      })) as unknown as LockSteps[Name]
  return {
    acquire: step('acquire'),
    release: step('release'),
    renew: step('renew'),
    shorten: step('shorten'),
    leave: step('leave'),
    evict: step('evict'),
    keep: step('keep'),
    fail: step('fail'),
    async sweep(limit, times) {
      check()
      // Usually nothing is due. A read finds that without the writer.
      if (!(await reader.read((connection) => maySweep(connection, namespace, times)))) return []
      return writer.write({ operation: 'sweepLocks', namespace, args: [limit, times] })
    },
    async findWaitingHolders(keys) {
      check()
      return reader.read((connection) => findWaitingHolders(connection, namespace, keys))
    },
    async inspect(key, limit) {
      check()
      return reader.read((connection) => inspectQueue(connection, namespace, key, limit))
    },
    async list(query) {
      check()
      return reader.read((connection) => listQueues(connection, namespace, query))
    },
  }
}

function findWaitingHolders(
  connection: Connection,
  namespace: string,
  keys: readonly LockKey[],
): readonly WaitingHolder[] {
  const now = readLeaseClock(connection)
  const holders = keys.flatMap(({ operation, resource }) =>
    connection
      .all<WaitingHolderRow>(
        `SELECT h.holder_node AS node, h.holder_request_id AS request_id, h.token, w.seq,
                l.operation AS for_operation, l.resource AS for_resource
         FROM lock_queue h JOIN lock_waiter w ON w.node = h.holder_node AND w.request_id = h.holder_request_id
         JOIN lock_queue l ON l.queue_id = w.queue_id AND l.namespace = h.namespace
         WHERE h.namespace = ?1 AND h.operation = ?2 AND h.resource = ?3 AND h.lease_ends_at > ?4 LIMIT ?5 + 0`,
        namespace,
        operation,
        resource,
        now,
        maxWaitingHolders,
      )
      .map((stored) => decodeWaitingHolder({ ...stored, operation, resource })),
  )
  return holders.slice(0, maxWaitingHolders)
}

function inspectQueue(
  connection: Connection,
  namespace: string,
  { operation, resource }: LockKey,
  limit: number,
): WaitQueueView | undefined {
  const record = connection.get<WaitQueueRecord>(
    `SELECT * FROM lock_queue WHERE namespace = ?1 AND operation = ?2 AND resource = ?3`,
    namespace,
    operation,
    resource,
  )
  if (!record) return undefined
  const waiters = connection.all<{
    node: string
    request_id: string
    since: number
    want: 'result' | 'turn'
  }>(
    `SELECT node, request_id, since, want FROM lock_waiter WHERE queue_id = ?1 ORDER BY seq LIMIT ?2 + 0`,
    record.queue_id,
    limit,
  )
  return {
    ...summaryOf(connection, record),
    revision: record.revision,
    waiters: waiters.map(({ node, request_id: requestId, since, want }, index) => ({
      node,
      requestId,
      position: index + 1,
      since,
      want,
    })),
    lastOutcome: decodeLast(record),
  }
}

function listQueues(
  connection: Connection,
  namespace: string,
  { operation, search, limit, after }: WaitQueueQuery,
): readonly WaitQueueSummary[] {
  return connection
    .all<WaitQueueRecord>(
      `SELECT * FROM lock_queue
       WHERE namespace = ?1 AND (holder_node IS NOT NULL OR waiter_count > 0)
         AND (?2 IS NULL OR operation = ?2) AND (?3 IS NULL OR instr(resource, ?3) > 0)
         AND (?4 IS NULL OR (operation, resource) > (?4, ?5))
       ORDER BY operation, resource LIMIT ?6`,
      namespace,
      operation ?? null,
      search ?? null,
      after?.operation ?? null,
      after?.resource ?? null,
      limit,
    )
    .map((record) => summaryOf(connection, record))
}

/** Leases are stored in the lease clock's time and shown in the wall clock's. */
function summaryOf(connection: Connection, record: WaitQueueRecord): WaitQueueSummary {
  const aheadMs = readWallAhead(connection)
  const now = readLeaseClock(connection) + aheadMs
  return decodeSummary({ ...record, ...{ lease_ends_at: record.lease_ends_at + aheadMs }, now })
}

interface WaitQueueRecord extends Omit<SummaryRow, 'now'> {
  readonly last_outcome: string | null
  readonly queue_id: number
  readonly revision: number
  readonly lease_ends_at: number
}
