import { hash } from 'node:crypto'
import type { LockKey, WaitingHolder, WaitQueueSummary } from '../../../locks/index.ts'
import type {
  Holder,
  HolderView,
  LastOutcome,
  Outcome,
  Waiter,
  WaitQueueRow,
} from '../../../locks/rules/index.ts'
import { type Columns, columns } from '../columns.ts'

/** One wait queue of one namespace, and the key of its rows. */
export interface WaitQueueName extends LockKey {
  readonly namespace: string
  /** SHA-256 of the three names, which together are too wide for an index. */
  readonly queueKey: string
}

/** Each wait queue has its own key: JSON keeps the names apart. */
export function nameWaitQueue(namespace: string, { operation, resource }: LockKey): WaitQueueName {
  const queueKey = hash('sha256', JSON.stringify([namespace, operation, resource]), 'base64url')
  return { namespace, operation, resource, queueKey }
}

/** The number of token counters. Each is a row, so grants of different resources seldom wait for the same row. */
export const shardCount = 64

/** All operations of a resource take their tokens from the same counter. */
export function shardOf({ namespace, resource }: WaitQueueName): number {
  const digest = hash('sha256', JSON.stringify([namespace, resource]), 'hex')
  return Number.parseInt(digest.slice(0, 2), 16) % shardCount
}

/** The maximum number of waiting holders that one read returns. */
export const maxWaitingHolders = 1_000

/** The columns of a wait queue. */
interface QueueCounts extends Pick<WaitQueueRow, 'attempt' | 'grantFrom' | 'revision'> {
  readonly waiterCount: number
  readonly dueAt: number | null
}

export const storedCounts: Columns<QueueCounts> = columns<QueueCounts>({
  ...{ attempt: 'integer', grantFrom: 'integer', revision: 'integer', waiterCount: 'integer' },
  dueAt: 'integer | null',
})

/** The columns of a holder. Progress is separate, because it may be large. */
const storedHolder = columns<Omit<Holder, 'progress'>>({
  ...{ node: ['text', 'holder_node'], requestId: ['text', 'holder_request_id'], token: 'integer' },
  ...{ attempt: ['integer', 'holder_attempt'], since: ['integer', 'holder_since'] },
  ...{ ttlMs: ['integer', 'holder_ttl_ms'], leaseEndsAt: 'integer', takeUpBy: 'integer | null' },
  seq: ['integer', 'holder_seq'],
})

/** The last outcome. No rule reads it, and it may be large. */
export const storedLast: Columns<LastOutcome> = columns<LastOutcome>({
  ...{ outcome: ['text', 'last_outcome'], node: ['text', 'last_node'], attempt: ['integer', 'last_attempt'] },
  ...{ at: ['integer', 'last_at'], value: ['text | null', 'last_value'] },
})

/** The columns of a wait queue that every step writes. */
export const queueColumns: Columns<object>['types'] = { ...storedCounts.types, ...storedHolder.types }

/** The parts of a wait queue to write. */
export interface WaitQueueSave {
  readonly row: WaitQueueRow
  /** True: the wait queue has no row yet. */
  readonly isNew: boolean
  readonly dueAt: number | null
  readonly waiterCount: number
  /** False: the holder's progress did not change and is not written again. */
  readonly writesProgress: boolean
}

/** Decodes a wait queue without its last outcome, which stays unchanged unless a rule sets another. */
export function decodeQueue(row: HolderRow): WaitQueueRow {
  const { attempt, grantFrom, revision } = storedCounts.decode(row)
  const holder = row.holder_node === null ? null : { ...storedHolder.decode(row), progress: row.progress }
  return { holder, attempt, grantFrom, revision, lastOutcome: null }
}

export interface HolderRow {
  readonly holder_node: string | null
  readonly progress: string | null
}

/** The values of `queueColumns`. */
export function encodeQueue({
  row,
  dueAt,
  waiterCount,
}: WaitQueueSave): ReturnType<Columns<object>['encode']> {
  return { ...storedCounts.encode({ ...row, dueAt, waiterCount }), ...storedHolder.encode(row.holder ?? {}) }
}

export function decodeLast(row: { readonly last_outcome: string | null }): LastOutcome | null {
  return row.last_outcome === null ? null : storedLast.decode(row)
}

export const storedWaiter: Columns<Waiter> = columns<Waiter>({
  ...{ node: 'text', requestId: 'text', seq: 'integer', want: 'text', ttlMs: 'integer', since: 'integer' },
  ...{ leaseEndsAt: 'integer', deadlineAt: 'integer | null', isStreamed: 'boolean' },
})

/** The time at which the wait ends unless the waiter asks again: its lease or its deadline, whichever comes first. */
export function waiterDueAt({ leaseEndsAt, deadlineAt }: Waiter): number {
  return deadlineAt === null ? leaseEndsAt : Math.min(leaseEndsAt, deadlineAt)
}

/** The text of the outcome is stored separately, because many waiters share it. */
type StoredOutcome = Omit<Outcome, 'value'>

export const storedOutcome: Columns<StoredOutcome> = columns<StoredOutcome>({
  ...{ node: 'text', requestId: 'text', kind: 'text', seq: 'integer', isNotified: 'boolean' },
  ...{ keptUntil: 'integer', revision: 'integer' },
})

/** Decodes an outcome. The row has its text as `value`. */
export function decodeOutcome(row: { readonly value: string | null }): Outcome {
  return { ...storedOutcome.decode(row), value: row.value }
}

export interface SummaryRow extends HolderRow {
  readonly operation: string
  readonly resource: string
  readonly waiter_count: number | string
  readonly now: number | string
}

export function decodeSummary(row: SummaryRow): WaitQueueSummary {
  const { operation, resource } = row
  return { operation, resource, holder: viewHolder(row), waiterCount: Number(row.waiter_count) }
}

/** A holder with an expired lease is not shown. */
function viewHolder(row: SummaryRow): HolderView | null {
  const { node, requestId, attempt, since, leaseEndsAt: expiresAt } = storedHolder.decode(row)
  if (row.holder_node === null || expiresAt <= Number(row.now)) return null
  return { node, requestId, attempt, since, expiresAt, progress: row.progress }
}

/** A holder of one wait queue that waits in another. */
export interface WaitingHolderRow {
  readonly operation: string
  readonly resource: string
  readonly node: string
  readonly request_id: string
  readonly token: number | string
  readonly seq: number | string
  readonly for_operation: string
  readonly for_resource: string
}

export function decodeWaitingHolder(row: WaitingHolderRow): WaitingHolder {
  return {
    who: { node: row.node, requestId: row.request_id },
    holds: { operation: row.operation, resource: row.resource },
    token: Number(row.token),
    waitsFor: { operation: row.for_operation, resource: row.for_resource },
    seq: Number(row.seq),
  }
}
