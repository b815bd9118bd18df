import type {
  LockKey,
  WaiterView,
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
  type StoredWaitingHolder,
} from '../../sql/locks/wait-queue-record.ts'
import { nowMs } from '../connection/columns.ts'
import type { Connections, Statement } from '../connection/connection.ts'

/** Looking at wait queues. Each look is one statement, so what it shows was so at one moment; nobody is kept waiting by it. */
export class WaitQueueReads {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #schema: string

  constructor(connections: Connections, namespace: string, schema: string) {
    this.#connections = connections
    this.#namespace = namespace
    this.#schema = schema
  }

  async inspect(key: LockKey, limit: number): Promise<WaitQueueView | undefined> {
    const { queueKey } = nameWaitQueue(this.#namespace, key)
    const { rows } = await this.#connections.run<InspectedRow>(inspectStatement(this.#schema), [
      queueKey,
      limit,
    ])
    const [row] = rows
    if (!row) return undefined
    const waiters = row.waiters.map(([node, requestId, since, want], index) => ({
      node,
      requestId,
      position: index + 1,
      since,
      want,
    }))
    return {
      ...decodeSummary(row),
      revision: Number(row.revision),
      waiters,
      lastOutcome: decodeLast(row),
    }
  }

  async list({ operation, search, limit, after }: WaitQueueQuery): Promise<readonly WaitQueueSummary[]> {
    const statement = listStatement(this.#schema, operation !== undefined, after !== undefined)
    const { rows } = await this.#connections.run<StoredSummary & Record<string, unknown>>(statement, [
      this.#namespace,
      limit,
      search ?? null,
      ...(operation === undefined ? [] : [operation]),
      ...(after === undefined ? [] : [after.operation, after.resource]),
    ])
    return rows.map(decodeSummary)
  }

  async findWaitingHolders(keys: readonly LockKey[]): Promise<readonly WaitingHolder[]> {
    const { rows } = await this.#connections.run<StoredWaitingHolder & Record<string, unknown>>(
      waitingHoldersStatement(this.#schema),
      [this.#namespace, keys.map((key) => nameWaitQueue(this.#namespace, key).queueKey), maxWaitingHolders],
    )
    return rows.map(decodeWaitingHolder)
  }
}

interface InspectedRow extends StoredSummary, StoredLast {
  readonly revision: string
  readonly waiters: readonly [string, string, number, WaiterView['want']][]
}

const shown = `l.operation, l.resource, l.waiter_count, l.holder_node, l.holder_request_id, l.holder_attempt,
       l.holder_since, l.lease_ends_at, l.progress, ${nowMs} AS now`

function inspectStatement(s: string): Statement {
  return {
    name: 'sb_line_inspect',
    text: `
SELECT ${shown}, l.revision, ${lastColumns.map((column) => `l.${column}`).join(', ')},
       (SELECT coalesce(json_agg(json_build_array(w.node, w.request_id, w.since, w.want) ORDER BY w.seq), '[]')
        FROM (SELECT * FROM ${s}.lock_waiter WHERE queue_key = $1 ORDER BY seq LIMIT $2) w) AS waiters
FROM ${s}.lock_queue l WHERE l.queue_key = $1`,
  }
}

function waitingHoldersStatement(s: string): Statement {
  return {
    name: 'sb_lock_waiting_holders',
    text: `
SELECT h.operation, h.resource, h.holder_node AS node, h.holder_request_id AS request_id, h.token, w.seq,
       l.operation AS for_operation, l.resource AS for_resource
FROM ${s}.lock_queue h
JOIN ${s}.lock_waiter w
  ON w.namespace = $1 AND w.node = h.holder_node AND w.request_id = h.holder_request_id
JOIN ${s}.lock_queue l ON l.queue_key = w.queue_key
WHERE h.queue_key = ANY ($2::text[]) AND h.lease_ends_at > ${nowMs} LIMIT $3`,
  }
}

/** By operation and resource, in the order of bytes; the beginning of the resource is what the index has of it. */
function listStatement(s: string, hasOperation: boolean, hasAfter: boolean): Statement {
  const at = hasOperation ? 5 : 4
  const operation = hasOperation ? 'AND l.operation = $4' : ''
  const after = hasAfter
    ? `AND (l.operation, left(l.resource, 191)) >= ($${at}, left($${at + 1}, 191))
  AND (l.operation, l.resource) > ($${at}, $${at + 1})`
    : ''
  return {
    name: `sb_line_list_${Number(hasOperation)}${Number(hasAfter)}`,
    text: `
SELECT ${shown} FROM ${s}.lock_queue l
WHERE l.namespace = $1 AND l.idle_since IS NULL AND ($3::text IS NULL OR strpos(l.resource, $3) > 0)
  ${operation} ${after}
ORDER BY l.operation, left(l.resource, 191), l.resource LIMIT $2`,
  }
}
