import type { LineQuery, LineSummary, LineView, LockKey, LockStore } from '../../locks/index.ts'
import { decodeLast, decodeSummary, type StoredLast, type StoredSummary } from '../linerecord.ts'
import { type Connection, readNow } from './connection.ts'
import { readLeaseClock } from './leaseclock.ts'
import { type LockSteps, maySweep } from './locksteps.ts'
import type { Reader } from './reader.ts'
import type { Writer } from './writer.ts'

/** Locks of one namespace in SQLite: steps go to the writer, by name and in plain data; looking goes to the reader. */
export function createSqliteLocks(
  namespace: string,
  writer: Writer,
  reader: Reader,
  check: () => void,
): LockStore {
  const step = <Name extends keyof LockSteps>(name: Name): LockSteps[Name] =>
    // The steps' types are told apart by their name, which the writer gives back the answer of.
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
    async sweep(limit, times) {
      check()
      // Nearly always there is nothing to do, and then nobody needs the writer.
      if (!(await reader.read((connection) => maySweep(connection, namespace, times)))) return []
      return writer.write({ operation: 'sweepLocks', namespace, args: [limit, times] })
    },
    async inspect(key, limit) {
      check()
      return reader.read((connection) => inspectLine(connection, namespace, key, limit))
    },
    async list(query) {
      check()
      return reader.read((connection) => listLines(connection, namespace, query))
    },
  }
}

function inspectLine(
  connection: Connection,
  namespace: string,
  { operation, resource }: LockKey,
  limit: number,
): LineView | undefined {
  const record = connection.get<LineRecord>(
    `SELECT * FROM lock_line WHERE namespace = ?1 AND operation = ?2 AND resource = ?3`,
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
    `SELECT node, request_id, since, want FROM lock_waiter WHERE line = ?1 ORDER BY seq LIMIT ?2`,
    record.line,
    limit,
  )
  return {
    ...summaryOf(record, readNow(connection)),
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

function listLines(
  connection: Connection,
  namespace: string,
  { operation, search, limit, after }: LineQuery,
): readonly LineSummary[] {
  const wall = readNow(connection)
  return connection
    .all<LineRecord>(
      `SELECT * FROM lock_line
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
    .map((record) => summaryOf(record, wall))
}

/** Leases are kept in the lease clock's time and shown in the wall clock's. */
function summaryOf(record: LineRecord, wall: number): LineSummary {
  const now = readLeaseClock()
  return decodeSummary({ ...record, lease_ends_at: wall + (record.lease_ends_at - now), now: wall })
}

interface LineRecord extends Omit<StoredSummary, 'now'>, StoredLast {
  readonly line: number
  readonly revision: number
  readonly lease_ends_at: number
}
