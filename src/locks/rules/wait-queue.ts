/**
 * One fair queue: who holds a key, who waits for it in which order, and how it ended for those who left. These are the
 * records as a store keeps them; rules.ts says how they change.
 *
 * Leases are instants of the store's lease clock, which may be another than the clock on the wall (SQLite's is the
 * host's monotonic one, which no change of the time moves). Results, errors and progress are JSON text.
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
  /** Until when the grant must be taken up; null once it was. */
  readonly takeUpBy: number | null
  /** The position in the wait queue it had, which it keeps when it asks again. */
  readonly seq: number
  readonly progress: string | null
}

/** Who asks: a node, and which of its requests. */
export interface Requester {
  readonly node: string
  readonly requestId: string
}

export interface Waiter extends Requester {
  /** Rises with every arrival; the lowest is next. */
  readonly seq: number
  /** `result`: learns of a success and leaves. `turn`: is granted in any case. */
  readonly want: Want
  readonly ttlMs: number
  /** Wall clock. */
  readonly since: number
  readonly leaseEndsAt: number
  readonly deadlineAt: number | null
  /** It has an open stream, so it hears of a grant at once. */
  readonly isStreamed: boolean
}

export type Want = 'result' | 'turn'

/** The outcome for a requester that was in the wait queue. */
export interface Outcome extends Requester {
  readonly kind: OutcomeKind
  /** The result, or the error. */
  readonly value: string | null
  readonly seq: number
  readonly isNotified: boolean
  /** Until when it is kept, by the lease clock. */
  readonly keptUntil: number
  readonly revision: number
}

/**
 * `completed`, `failed`: the wait queue's end was told. `timeout`: its deadline came. `evicted`: an operator removed it.
 * `lost`: its lease, or the time to take up its grant, ran out.
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
 * The rows of one wait queue, inside a transaction that keeps everybody else out of that wait queue. A store answers each of these
 * at once or in time; rules.ts does not know which.
 */
export interface WaitQueueRows {
  /** Whose wait queue it is; asked where operations exclude each other. */
  operation(): string
  /**
   * The lease clock, and the wall clock, at the beginning of the transaction. `aheadMs` is by how much the wall clock is
   * ahead, where the difference of the two readings would not show one lease as the same instant each time.
   */
  clock(): { readonly now: number; readonly wall: number; readonly aheadMs?: number }
  queue(): WaitQueueRow | undefined
  /** Writes the row, and when it next falls due (the lease clock; null: never by itself). */
  saveQueue(row: WaitQueueRow, dueAt: number | null): void
  /** Above every token of the key before it, for ever, and no less than the wall clock in microseconds. */
  mintToken(): number
  waiter(who: Requester): Waiter | undefined
  firstWaiter(): Waiter | undefined
  /** How many stand before this position; without one, how many there are. */
  countWaiters(beforeSeq?: number): number
  saveWaiter(waiter: Waiter): void
  removeWaiter(who: Requester): void
  /** The outcome kept for a requester, unless its time is over. */
  outcome(who: Requester): Outcome | undefined
  saveOutcome(outcome: Outcome): void
  removeOutcome(who: Requester): void
  /** Ends the wait of all (or of those who want the result) with this outcome, in one step; answers how many. */
  dissolve(wants: 'result' | 'all', outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>): number
}
