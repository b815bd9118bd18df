import type {
  AcquireRequest,
  HolderView,
  LastOutcome,
  LockTimes,
  Notified,
  Released,
  RenewTerms,
  Requester,
  Ruled,
  Standing,
  Want,
} from './rules/index.ts'

/**
 * What locks need from an engine: wait queues, with atomic steps that are durable when they are answered and use the
 * store's own clock. `src/locks/rules/rules.ts` says what a step does. Redis cannot run these rules and repeats them in its
 * scripts; the conformance suite and a random walk compare the two.
 *
 * Every answer says whom to wake. The caller wakes them with the notifier, after the commit.
 */
export interface LockStore {
  acquire(
    key: LockKey,
    request: AcquireRequest,
    times: LockTimes,
  ): Promise<Ruled<{ readonly standing: Standing }>>
  release(
    key: LockKey,
    who: Requester & { readonly token: number },
    end: {
      readonly outcome: 'success' | 'failure'
      readonly value: string | null
      readonly terminal: boolean
    },
    times: LockTimes,
  ): Promise<Ruled<Released>>
  renew(
    key: LockKey,
    who: Requester & { readonly token: number },
    terms: RenewTerms,
    times: LockTimes,
  ): Promise<Ruled<{ readonly expiresAt: number | undefined }>>
  shorten(
    key: LockKey,
    who: Requester & { readonly token: number },
    toMs: number,
    times: LockTimes,
  ): Promise<Ruled<{ readonly shortened: boolean }>>
  leave(
    key: LockKey,
    who: Requester,
    times: LockTimes,
  ): Promise<Ruled<{ readonly left: boolean | 'holding' }>>
  evict(key: LockKey, who: Requester, times: LockTimes): Promise<Ruled<{ readonly evicted: boolean }>>
  keep(
    key: LockKey,
    who: Requester,
    options: { readonly isStreamed: boolean },
    times: LockTimes,
  ): Promise<Ruled<{ readonly standing: Standing | undefined }>>

  /** Ends one wait as failed with this error, if it is still at that position. The waiter gets it like any other outcome. */
  fail(
    key: LockKey,
    who: Requester & { readonly seq: number },
    value: string,
    times: LockTimes,
  ): Promise<Ruled<{ readonly failed: boolean }>>

  /** The wait queue as it is now, with up to `limit` waiters, without a holder whose lease expired. */
  inspect(key: LockKey, limit: number): Promise<WaitQueueView | undefined>
  /** Wait queues with a holder or waiters, by operation and then resource. `after` is the last key of the page before. */
  list(query: WaitQueueQuery): Promise<readonly WaitQueueSummary[]>

  /**
   * Finds up to 1,000 waits of the holders of these wait queues. A wait queue whose holder waits nowhere costs one look-up;
   * nearly all are such.
   */
  findWaitingHolders(keys: readonly LockKey[]): Promise<readonly WaitingHolder[]>

  /**
   * Applies due changes (a lease, a take-up, a delay, a deadline) to up to `limit` wait queues. It deletes wait queues
   * without holder and waiters, and expired outcomes. Answers which requesters to wake.
   */
  sweep(
    limit: number,
    times: LockTimes,
  ): Promise<readonly { readonly key: LockKey; readonly notified: Notified }[]>
}

/** The key of a wait queue: an operation on a resource. */
export interface LockKey {
  readonly operation: string
  readonly resource: string
}

/** A requester that holds one lock and waits for another. */
export interface WaitingHolder {
  readonly who: Requester
  readonly holds: LockKey
  /** The token of its grant. */
  readonly token: number
  readonly waitsFor: LockKey
  /** Its position in that wait queue. */
  readonly seq: number
}

/** A wait queue as people see it, without tokens. */
export interface WaitQueueView extends LockKey {
  readonly revision: number
  readonly holder: HolderView | null
  readonly waiters: readonly WaiterView[]
  readonly waiterCount: number
  readonly lastOutcome: LastOutcome | null
}

export interface WaiterView extends Requester {
  /** 1 is next. */
  readonly position: number
  readonly since: number
  readonly want: Want
}

export interface WaitQueueSummary extends LockKey {
  readonly holder: HolderView | null
  readonly waiterCount: number
}

export interface WaitQueueQuery {
  readonly operation?: string
  /** Only resources that contain this text. */
  readonly search?: string
  readonly limit: number
  readonly after?: LockKey
}
