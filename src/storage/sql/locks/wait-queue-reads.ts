import type { LockStore, WaiterView } from '../../../locks/index.ts'
import type { Database } from '../database.ts'
import { readAll } from '../operations.ts'
import { serverStatement } from '../statement.ts'
import {
  decodeLast,
  decodeSummary,
  decodeWaitingHolder,
  maxWaitingHolders,
  nameWaitQueue,
  type SummaryRow,
  storedLast,
} from './wait-queue-record.ts'

/** Reads of wait queues for observers. Each read is one statement, so it shows one moment. It blocks no other call. */
export function createQueueReads(
  database: Database,
  namespace: string,
): Pick<LockStore, 'inspect' | 'list' | 'findWaitingHolders'> {
  return {
    async inspect(key, limit) {
      const { queueKey } = nameWaitQueue(namespace, key)
      const rows = await database.run(inspectQueue, [queueKey, limit])
      const [first] = rows
      if (!first) return undefined
      const waiters = rows.flatMap(({ node, request_id: requestId, place, since, want }) =>
        node === null ? [] : [{ node, requestId, position: Number(place), since: Number(since), want }],
      )
      return {
        ...decodeSummary(first),
        revision: Number(first.revision),
        waiters,
        lastOutcome: decodeLast(first),
      }
    },
    async list({ operation: name, search, limit, after }) {
      return database.run(listQueues, [
        { namespace, operation: name, search, limit },
        after === undefined ? {} : { afterOperation: after.operation, afterResource: after.resource },
      ])
    },
    async findWaitingHolders(keys) {
      if (keys.length === 0) return []
      const queueKeys = keys.map((key) => nameWaitQueue(namespace, key).queueKey)
      return database.run(findHolders, [namespace, queueKeys])
    },
  }
}

const shown = `l.operation, l.resource, l.waiter_count, l.holder_node, l.holder_request_id, l.holder_attempt,
  l.holder_since, l.lease_ends_at`
const lastNames = Object.keys(storedLast.types)

interface InspectedRow extends SummaryRow {
  readonly last_outcome: string | null
  readonly revision: number | string
  readonly node: string | null
  readonly request_id: string
  readonly place: number | string
  readonly since: number | string
  readonly want: WaiterView['want']
}

/** One row for each waiter, or one row without a waiter. Only the first row has the columns that may be large. */
const selectQueue = serverStatement('lock_queue_inspect', { queueKey: 'text', limit: 'integer' }, (d) => {
  const once = (name: string) => `CASE WHEN COALESCE(w.place, 1) = 1 THEN l.${name} END AS ${name}`
  return `
SELECT ${shown}, ${d.now} AS now, l.revision, ${['progress', ...lastNames].map(once).join(', ')},
  w.node, w.request_id, w.place, w.since, w.want
FROM @lock_queue l LEFT JOIN (
  SELECT queue_key, node, request_id, since, want, ROW_NUMBER() OVER (ORDER BY seq) AS place
  FROM @lock_waiter ${d.byIndex('PRIMARY')} WHERE queue_key = :queueKey ORDER BY seq LIMIT :limit
) w ON w.queue_key = l.queue_key
WHERE l.queue_key = :queueKey ORDER BY w.place`
})

const inspectQueue = readAll(
  'look at a lock',
  (queueKey: string, limit: number) => selectQueue({ queueKey, limit }),
  (row: InspectedRow) => row,
)

/**
 * By operation and resource, in byte order. It chooses the rows of the page first, without reading columns that may be
 * large.
 */
const selectPage = serverStatement(
  'lock_queue_list',
  {
    ...{ namespace: 'text', limit: 'integer', 'operation?': 'text', 'search?': 'text' },
    ...{ 'afterOperation?': 'text', afterResource: 'text' },
  },
  (d) => `
SELECT ${shown}, l.progress, ${d.now} AS now
FROM (
  SELECT queue_key FROM @lock_queue ${d.byIndex('lock_queue_idle')}
  WHERE namespace = :namespace AND idle_since IS NULL {AND operation = :operation}
    {AND ${d.contains('resource', ':search')}}
    {AND ${d.isAfterLong(['operation', ':afterOperation'], ['resource', ':afterResource'])}}
  ORDER BY operation, ${d.orderByLong('resource')} LIMIT :limit
) page ${d.thenJoin('@lock_queue', 'l', 'l.queue_key = page.queue_key')}
ORDER BY l.operation, l.resource`,
)

const listQueues = readAll(
  'list locks',
  (
    query: { namespace: string; limit: number; operation?: string | undefined; search?: string | undefined },
    { afterOperation, afterResource = '' }: { afterOperation?: string; afterResource?: string },
  ) => selectPage({ ...query, afterOperation, afterResource }),
  decodeSummary,
)

const selectHolders = serverStatement(
  'lock_queue_waiting_holders',
  { namespace: 'text', queueKeys: 'text[]', limit: 'integer' },
  (d) => `
SELECT h.operation, h.resource, h.holder_node AS node, h.holder_request_id AS request_id, h.token, w.seq,
  l.operation AS for_operation, l.resource AS for_resource
${d.byKeys({
  from: '@lock_queue',
  alias: 'h',
  where: `h.lease_ends_at > ${d.now}`,
  key: 'h.queue_key',
  keys: ':queueKeys',
  join: `${d.thenJoin('@lock_waiter', 'w', 'w.namespace = :namespace AND w.node = h.holder_node AND w.request_id = h.holder_request_id')}
  ${d.thenJoin('@lock_queue', 'l', 'l.queue_key = w.queue_key')}`,
})}
LIMIT :limit`,
)

const findHolders = readAll(
  'look for deadlocks',
  (namespace: string, queueKeys: readonly string[]) =>
    selectHolders({ namespace, queueKeys, limit: maxWaitingHolders }),
  decodeWaitingHolder,
)
