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
import type { ValuesOf } from '../statement.ts'

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
export const queueColumns = {
  attempt: 'integer',
  grant_from: 'integer',
  revision: 'integer',
  waiter_count: 'integer',
  due_at: 'integer | null',
  holder_node: 'text | null',
  holder_request_id: 'text | null',
  token: 'integer | null',
  holder_attempt: 'integer | null',
  holder_since: 'integer | null',
  holder_ttl_ms: 'integer | null',
  lease_ends_at: 'integer | null',
  take_up_by: 'integer | null',
  holder_seq: 'integer | null',
} as const

/** How it last ended. */
export const lastColumns = {
  last_node: 'text | null',
  last_attempt: 'integer | null',
  last_at: 'integer | null',
  last_value: 'text | null',
} as const

/** What of a wait queue is to be written. */
export interface WaitQueueSave {
  readonly row: WaitQueueRow
  /** There was no row of it. */
  readonly isNew: boolean
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

/** The values of `queueColumns`. */
export function encodeQueue({ row, dueAt, waiterCount }: WaitQueueSave): ValuesOf<typeof queueColumns> {
  const { holder, attempt, grantFrom, revision } = row
  return {
    attempt,
    grant_from: grantFrom,
    revision,
    waiter_count: waiterCount,
    due_at: dueAt,
    holder_node: holder?.node ?? null,
    holder_request_id: holder?.requestId ?? null,
    token: holder?.token ?? null,
    holder_attempt: holder?.attempt ?? null,
    holder_since: holder?.since ?? null,
    holder_ttl_ms: holder?.ttlMs ?? null,
    lease_ends_at: holder?.leaseEndsAt ?? null,
    take_up_by: holder?.takeUpBy ?? null,
    holder_seq: holder?.seq ?? null,
  }
}

/** The values of `lastColumns`. */
export function encodeLast({ row: { lastOutcome } }: WaitQueueSave): ValuesOf<typeof lastColumns> {
  return {
    last_node: lastOutcome?.node ?? null,
    last_attempt: lastOutcome?.attempt ?? null,
    last_at: lastOutcome?.at ?? null,
    last_value: lastOutcome?.value ?? null,
  }
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

export const waiterColumns = {
  node: 'text',
  request_id: 'text',
  seq: 'integer',
  want: 'text',
  ttl_ms: 'integer',
  since: 'integer',
  lease_ends_at: 'integer',
  deadline_at: 'integer | null',
  is_streamed: 'boolean',
} as const

export function encodeWaiter(waiter: Waiter): ValuesOf<typeof waiterColumns> {
  return {
    node: waiter.node,
    request_id: waiter.requestId,
    seq: waiter.seq,
    want: waiter.want,
    ttl_ms: waiter.ttlMs,
    since: waiter.since,
    lease_ends_at: waiter.leaseEndsAt,
    deadline_at: waiter.deadlineAt,
    is_streamed: waiter.isStreamed,
  }
}

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
  readonly is_notified: boolean | number
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
    isNotified: Boolean(stored.is_notified),
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

/** A lease that ran out shows as no holder. */
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
