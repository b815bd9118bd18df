import type { TransactionEnder } from '../core/caller-transaction.ts'

/**
 * The storage of guards. Each key of a call is one atomic step by the store's clock. All keys of one call share one
 * round trip (and on SQL one transaction). No result depends on a sweeper: the store decides at the moment of the call
 * whether a claim is live, a result is kept, or a window is open.
 *
 * A guard is in one of these states. An expired row counts as no guard; a span that ends at t is over at t.
 * - running until its lease ends; then, by its mode, failed since that instant, or stuck until an operator forgets it;
 * - done, with its result, for `keepMs` from then on;
 * - failed: a caller may claim it; its attempts are remembered for `keepMs`, so that the next claim is attempt + 1.
 *
 * `space` separates the keys of different modules: 'once' (callers' keys), 'processing' (running tasks),
 * 'monitor.task', 'monitor.event'. With `tx`, the step runs in the caller's transaction. Engines without that throw
 * `transaction_unsupported`.
 */
export interface GuardStore extends TransactionEnder {
  /**
   * Claims each key in the given order. If a call has a key twice, the second claim sees the first. A token is
   * `<number>.<nonce>`. The number is max(number of the claim before + 1, store time in µs), so it always rises, even
   * if the key was forgotten. A new claim writes its own mode, keepMs and fingerprint. `mismatch`: the key is running,
   * done or stuck with another fingerprint; null counts as a fingerprint.
   */
  claim(asks: readonly GuardAsk[], tx?: unknown): Promise<readonly GuardStanding[]>
  /**
   * Ends claims, in the given order. Answers for each whether it was written. It is written while the guard is running
   * with this token and its lease is live. A stuck at-most-once guard accepts it too, because no other claim can have
   * begun. Of a token that is settled twice in one call, only the first is written.
   */
  settle(ends: readonly GuardEnd[], tx?: unknown): Promise<readonly boolean[]>
  /**
   * Extends a lease to `leaseMs` from the store's present time; it never becomes shorter. Answers the new end, or
   * undefined if `settle` would refuse the token. A stuck guard becomes running again.
   */
  renew(ref: GuardRef, leaseMs: number, tx?: unknown): Promise<number | undefined>
  /** Forgets a key in any state. False: there was no guard, or only an expired row. */
  forget(space: string, key: string): Promise<boolean>
  /**
   * Answers for each sighting whether it was seen within its window. The first sighting answers false and opens the
   * window `[now, now + windowMs)`. A repeat answers true and changes nothing. A sighting with the same `window` and
   * another `value` answers false and replaces the window.
   */
  seen(asks: readonly WindowAsk[], tx?: unknown): Promise<readonly boolean[]>
  /**
   * Lists the guards of a space, by key if the engine has an order. `cursor` comes from the page before.
   */
  list(query: GuardQuery): Promise<{ readonly items: readonly Guard[]; readonly cursor: string | null }>
  /**
   * Forgets up to `limit` expired guards and windows of this namespace, but no stuck guard. Answers how many it forgot.
   * Engines that expire rows by themselves answer 0.
   */
  prune(limit: number): Promise<number>
}

export interface GuardAsk {
  readonly space: string
  /** 1 to 191 code points, without control characters. */
  readonly key: string
  readonly leaseMs: number
  readonly keepMs: number
  readonly mode: GuardMode
  readonly fingerprint: string | null
}

/** The store's answer to a claim. `result` is JSON text. */
export type GuardStanding =
  | { readonly status: 'run'; readonly token: string; readonly attempt: number }
  | { readonly status: 'running'; readonly leaseEndsInMs: number }
  | { readonly status: 'done'; readonly result: string | null }
  | { readonly status: 'stuck' }
  | { readonly status: 'mismatch' }

export interface GuardRef {
  readonly space: string
  readonly key: string
  readonly token: string
}

/** The end of a claim. `released` forgets the key at once. */
export interface GuardEnd extends GuardRef {
  readonly end: 'done' | 'failed' | 'released'
  /** JSON text; only for `done`. */
  readonly result: string | null
}

export interface WindowAsk {
  /** SHA-256, in hexadecimal, of the subject of the window. */
  readonly window: string
  /** SHA-256, in hexadecimal, of the state; empty if `window` includes the state. */
  readonly value: string
  readonly windowMs: number
}

export interface GuardQuery {
  readonly space: string
  /** Only keys that contain this text. */
  readonly search?: string
  readonly limit: number
  readonly cursor?: string
}

/** The state of a key whose lease ends without a settle: claimable again, or stuck until an operator forgets it. */
export type GuardMode = 'at-least-once' | 'at-most-once'

/** The answer to a claim. `degraded`: the store did not answer, so the policy `whenDown` decided. */
export type ClaimAnswer = (
  | { readonly status: 'run'; readonly token: string; readonly attempt: number }
  | { readonly status: 'running'; readonly retryInMs: number }
  | { readonly status: 'done'; readonly result: unknown }
  | { readonly status: 'stuck' }
) & { readonly degraded?: true }

/** The answer of `run` and `processing`. */
export type RunAnswer<Result> =
  | { readonly ran: true; readonly result: Result; readonly degraded?: true }
  | {
      readonly ran: false
      readonly status: 'running' | 'done' | 'stuck'
      readonly result?: unknown
      readonly retryInMs?: number
      readonly degraded?: true
    }

/** Whether the state was seen within its window; false means: notify. */
export interface SeenAnswer {
  readonly seen: boolean
  readonly degraded?: true
}

/** The view of a guard for operators, without its token. */
export interface Guard {
  readonly key: string
  readonly status: 'running' | 'done' | 'failed' | 'stuck'
  readonly mode: GuardMode
  readonly attempt: number
  readonly claimedAt: number
  /** When the lease ends, or when the result is forgotten; null: the guard is stuck. */
  readonly endsAt: number | null
}

/** A guard as a store lists it. */
export type GuardRecord = Guard
