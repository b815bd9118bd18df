import type {
  AcquireAsk,
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
 * What locks ask of a backend: wait queues, and each step on one of them atomic, durable when it is answered, and judged by
 * the store's own clock. What a step does is said once, in src/locks/rules/rules.ts; a store that cannot run those (Redis has
 * its scripts) does the same, and the conformance suite and a random walk hold it to that.
 *
 * Every answer says whom to notify. The caller does that, by the notifier and after the commit.
 */
export interface LockStore {
  acquire(key: LockKey, ask: AcquireAsk, times: LockTimes): Promise<Ruled<{ readonly standing: Standing }>>
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

  /** Ends one wait as failed with this error, if it is still at that position; the waiter learns it as any other outcome. */
  fail(
    key: LockKey,
    who: Requester & { readonly seq: number },
    value: string,
    times: LockTimes,
  ): Promise<Ruled<{ readonly failed: boolean }>>

  /** A wait queue as it is now, with up to `limit` waiters; a holder whose lease ran out is left out. */
  inspect(key: LockKey, limit: number): Promise<WaitQueueView | undefined>
  /** Wait queues that are held or waited for, by operation and then resource. `after` is the last key of the page before. */
  list(query: WaitQueueQuery): Promise<readonly WaitQueueSummary[]>

  /**
   * Where those who hold these wait queues wait, up to 1,000 such waits. A wait queue whose holder waits nowhere, as nearly always,
   * costs one look-up, and wait queues that are not asked about cost nothing.
   */
  findWaitingHolders(keys: readonly LockKey[]): Promise<readonly WaitingHolder[]>

  /**
   * Applies due changes (a lease, a take-up, a delay, a deadline) to up to `limit` wait queues. It deletes wait queues
   * without holder and waiters, and outcomes past their time. Answers which requesters to notify.
   */
  sweep(
    limit: number,
    times: LockTimes,
  ): Promise<readonly { readonly key: LockKey; readonly notified: Notified }[]>
}

/** One queue: an operation on a resource. */
export interface LockKey {
  readonly operation: string
  readonly resource: string
}

/** A requester that holds one lock and waits for another. */
export interface WaitingHolder {
  readonly who: Requester
  readonly holds: LockKey
  /** Of the grant it holds. */
  readonly token: number
  readonly waitsFor: LockKey
  /** Its position there. */
  readonly seq: number
}

/** A wait queue as people see it; no tokens. */
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
