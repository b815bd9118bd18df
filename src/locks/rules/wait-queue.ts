/**
 * The records of one wait queue, as a store keeps them: the holder, the waiters in order, and the outcomes of requesters
 * that left. rules.ts says how they change.
 *
 * Leases are instants of the store's lease clock, which may differ from the wall clock: on SQLite it is the host's monotonic
 * clock, which setting the time does not move. Results, errors and progress are JSON text.
 */
export interface WaitQueueRow {
  readonly holder: Holder | null
  /** The number of the current attempt; without a holder, of the last failed one. 0 after a success. */
  readonly attempt: number
  /** No grant before this instant of the lease clock: the lock delay after a lost lease. */
  readonly grantFrom: number
  /** Rises with every change, for ever. */
  readonly revision: number
  readonly lastOutcome: LastOutcome | null
}

export interface Holder extends Requester {
  /** The fence: rises with every grant of the key, for ever. */
  readonly token: number
  readonly attempt: number
  /** Wall clock. */
  readonly since: number
  readonly ttlMs: number
  readonly leaseEndsAt: number
  /** Until when the holder must take up its grant; null after it did. */
  readonly takeUpBy: number | null
  /** Its position in the wait queue, which it keeps when it asks again. */
  readonly seq: number
  readonly progress: string | null
}

/** A node, and one of its requests. */
export interface Requester {
  readonly node: string
  readonly requestId: string
}

export interface Waiter extends Requester {
  /** Rises with every arrival; the lowest is next. */
  readonly seq: number
  /** `result`: gets the result after a success and leaves. `turn`: gets the lock in any case. */
  readonly want: Want
  readonly ttlMs: number
  /** Wall clock. */
  readonly since: number
  readonly leaseEndsAt: number
  readonly deadlineAt: number | null
  /** It has an open stream, which brings a grant at once. */
  readonly isStreamed: boolean
}

export type Want = 'result' | 'turn'

/** How the wait of a requester ended. */
export interface Outcome extends Requester {
  readonly kind: OutcomeKind
  /** The result, or the error. */
  readonly value: string | null
  readonly seq: number
  /** Whether the requester got this outcome. */
  readonly isNotified: boolean
  /** The store keeps it until then, by the lease clock. */
  readonly keptUntil: number
  readonly revision: number
}

/**
 * `completed`, `failed`: the holder ended with that outcome for all waiters. `timeout`: the deadline passed. `evicted`: an
 * operator removed the requester. `lost`: its lease, or the time to take up its grant, expired.
 */
export type OutcomeKind = 'completed' | 'failed' | 'timeout' | 'evicted' | 'lost'

export interface LastOutcome {
  readonly outcome: 'success' | 'failure'
  readonly node: string
  readonly attempt: number
  /** Wall clock. */
  readonly at: number
  /** The result, or the error. */
  readonly value: string | null
}

/**
 * The rows of one wait queue, inside a transaction that excludes all other users of that wait queue. A store may answer at
 * once or later; rules.ts does not know which.
 */
export interface WaitQueueRows {
  /** The operation of the wait queue; used when operations exclude each other. */
  operation(): string
  /**
   * The lease clock and the wall clock at the beginning of the transaction. `aheadMs` is the difference of the two, for
   * stores whose two readings would show one lease as a slightly different instant each time.
   */
  clock(): { readonly now: number; readonly wall: number; readonly aheadMs?: number }
  queue(): WaitQueueRow | undefined
  /** Writes the row, and when it next changes by itself, by the lease clock (null: never). */
  saveQueue(row: WaitQueueRow, dueAt: number | null): void
  /** A token above all earlier tokens of the key, and at least the wall clock in microseconds. */
  mintToken(): number
  waiter(who: Requester): Waiter | undefined
  firstWaiter(): Waiter | undefined
  /** How many waiters are before this position; without one, how many there are. */
  countWaiters(beforeSeq?: number): number
  saveWaiter(waiter: Waiter): void
  removeWaiter(who: Requester): void
  /** The outcome of a requester, unless it expired. */
  outcome(who: Requester): Outcome | undefined
  saveOutcome(outcome: Outcome): void
  removeOutcome(who: Requester): void
  /** Ends the wait of all waiters, or of those that want the result, with this outcome; answers how many. */
  dissolve(wants: 'result' | 'all', outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>): number
}
