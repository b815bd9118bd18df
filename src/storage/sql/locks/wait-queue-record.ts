import type { WaitingHolder, WaitQueueSummary } from '../../../locks/index.ts'
import type {
  HolderView,
  LastOutcome,
  Outcome,
  OutcomeKind,
  Requester,
  Waiter,
  WaitQueueRow,
  Want,
} from '../../../locks/rules/index.ts'

/**
 * The rows of wait queues as SQL keeps them. Drivers give whole numbers as numbers or as text and truth as 0 and 1; here they
 * become records, whatever they came as.
 */
type Whole = number | string

export interface StoredHolder {
  readonly holder_node: string | null
  readonly holder_request_id: string
  readonly token: Whole
  readonly holder_attempt: Whole
  readonly holder_since: Whole
  readonly holder_ttl_ms: Whole
  readonly lease_ends_at: Whole
  readonly take_up_by: Whole | null
  readonly holder_seq: Whole
  readonly progress: string | null
}

export interface StoredWaitQueue extends StoredHolder {
  readonly attempt: Whole
  readonly grant_from: Whole
  readonly revision: Whole
  readonly waiter_count: Whole
  readonly due_at: Whole | null
}

/** The columns of StoredWaitQueue. How it last ended is not among them: no rule looks at it, and it may be large. */
export const queueColumns: readonly string[] = [
  'attempt',
  'grant_from',
  'revision',
  'waiter_count',
  'due_at',
  'holder_node',
  'holder_request_id',
  'token',
  'holder_attempt',
  'holder_since',
  'holder_ttl_ms',
  'lease_ends_at',
  'take_up_by',
  'holder_seq',
  'progress',
]

export const lastColumns: readonly string[] = [
  'last_outcome',
  'last_node',
  'last_attempt',
  'last_at',
  'last_value',
]

/** What of a wait queue is to be written. */
export interface WaitQueueSave {
  readonly row: WaitQueueRow
  readonly dueAt: number | null
  readonly waiterCount: number
  /** False: the holder's progress is as it was, and need not be written again. */
  readonly writesProgress: boolean
}

/** A wait queue as it was read: without how it last ended, which stays as it is unless a rule gives another. */
export function decodeQueue(stored: StoredWaitQueue): WaitQueueRow {
  return {
    holder:
      stored.holder_node === null
        ? null
        : {
            node: stored.holder_node,
            requestId: stored.holder_request_id,
            token: Number(stored.token),
            attempt: Number(stored.holder_attempt),
            since: Number(stored.holder_since),
            ttlMs: Number(stored.holder_ttl_ms),
            leaseEndsAt: Number(stored.lease_ends_at),
            takeUpBy: wholeOrNull(stored.take_up_by),
            seq: Number(stored.holder_seq),
            progress: stored.progress,
          },
    attempt: Number(stored.attempt),
    grantFrom: Number(stored.grant_from),
    revision: Number(stored.revision),
    lastOutcome: null,
  }
}

/** In the order of `queueColumns`. */
export function queueValues({
  row: { holder, attempt, grantFrom, revision },
  dueAt,
  waiterCount,
}: WaitQueueSave): unknown[] {
  return [
    attempt,
    grantFrom,
    revision,
    waiterCount,
    dueAt,
    holder?.node ?? null,
    holder?.requestId ?? null,
    holder?.token ?? null,
    holder?.attempt ?? null,
    holder?.since ?? null,
    holder?.ttlMs ?? null,
    holder?.leaseEndsAt ?? null,
    holder?.takeUpBy ?? null,
    holder?.seq ?? null,
    holder?.progress ?? null,
  ]
}

/** In the order of `lastColumns`; nulls where it stays as it is. */
export function lastValues({ row: { lastOutcome } }: WaitQueueSave): unknown[] {
  if (lastOutcome === null) return lastColumns.map(() => null)
  const { outcome, node, attempt, at, value } = lastOutcome
  return [outcome, node, attempt, at, value]
}

export interface StoredLast {
  readonly last_outcome: LastOutcome['outcome'] | null
  readonly last_node: string
  readonly last_attempt: Whole
  readonly last_at: Whole
  readonly last_value: string | null
}

export function decodeLast(stored: StoredLast): LastOutcome | null {
  if (stored.last_outcome === null) return null
  return {
    outcome: stored.last_outcome,
    node: stored.last_node,
    attempt: Number(stored.last_attempt),
    at: Number(stored.last_at),
    value: stored.last_value,
  }
}

export interface StoredWaiter {
  readonly node: string
  readonly request_id: string
  readonly seq: Whole
  readonly want: Want
  readonly ttl_ms: Whole
  readonly since: Whole
  readonly lease_ends_at: Whole
  readonly deadline_at: Whole | null
  readonly is_streamed: boolean | number
}

export const waiterColumns: readonly string[] = [
  'node',
  'request_id',
  'seq',
  'want',
  'ttl_ms',
  'since',
  'lease_ends_at',
  'deadline_at',
  'is_streamed',
]

export function decodeWaiter(stored: StoredWaiter): Waiter {
  return {
    node: stored.node,
    requestId: stored.request_id,
    seq: Number(stored.seq),
    want: stored.want,
    ttlMs: Number(stored.ttl_ms),
    since: Number(stored.since),
    leaseEndsAt: Number(stored.lease_ends_at),
    deadlineAt: wholeOrNull(stored.deadline_at),
    isStreamed: Boolean(stored.is_streamed),
  }
}

/** When its wait ends unless it asks again: its lease or its deadline, whichever comes first. */
export function waiterDueAt({ leaseEndsAt, deadlineAt }: Waiter): number {
  return deadlineAt === null ? leaseEndsAt : Math.min(leaseEndsAt, deadlineAt)
}

export interface StoredOutcome {
  readonly kind: OutcomeKind
  readonly value: string | null
  readonly seq: Whole
  readonly is_told: boolean | number
  readonly kept_until: Whole
  readonly revision: Whole
}

export function decodeOutcome({ node, requestId }: Requester, stored: StoredOutcome): Outcome {
  return {
    node,
    requestId,
    kind: stored.kind,
    value: stored.value,
    seq: Number(stored.seq),
    isTold: Boolean(stored.is_told),
    keptUntil: Number(stored.kept_until),
    revision: Number(stored.revision),
  }
}

export interface StoredSummary extends StoredHolder {
  readonly operation: string
  readonly resource: string
  readonly waiter_count: Whole
  readonly now: Whole
}

export function decodeSummary(stored: StoredSummary): WaitQueueSummary {
  const { operation, resource } = stored
  return { operation, resource, holder: viewHolder(stored), waiterCount: Number(stored.waiter_count) }
}

/** Who holds a wait queue and waits in another, as it was found. */
export interface StoredWaitingHolder {
  readonly operation: string
  readonly resource: string
  readonly node: string
  readonly request_id: string
  readonly token: Whole
  readonly seq: Whole
  readonly for_operation: string
  readonly for_resource: string
}

export function decodeWaitingHolder(stored: StoredWaitingHolder): WaitingHolder {
  return {
    who: { node: stored.node, requestId: stored.request_id },
    holds: { operation: stored.operation, resource: stored.resource },
    token: Number(stored.token),
    waitsFor: { operation: stored.for_operation, resource: stored.for_resource },
    seq: Number(stored.seq),
  }
}

/** A lease that ran out shows as nobody holding. */
function viewHolder(stored: StoredSummary): HolderView | null {
  const { holder_node: node, holder_request_id: requestId, progress } = stored
  const expiresAt = Number(stored.lease_ends_at)
  if (node === null || expiresAt <= Number(stored.now)) return null
  const [attempt, since] = [Number(stored.holder_attempt), Number(stored.holder_since)]
  return { node, requestId, attempt, since, expiresAt, progress }
}

function wholeOrNull(value: Whole | null): number | null {
  return value === null ? null : Number(value)
}
