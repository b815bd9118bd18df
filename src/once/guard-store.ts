import type { TransactionEnder } from '../core/caller-transaction.ts'

/**
 * What guards ask of a backend. Each key of a call is one atomic step, judged by the store's own clock; all keys of one
 * call share one round trip (and on SQL one transaction). Nothing waits for a sweeper: whether a claim lives, a result is
 * still kept or a window is open is judged at the moment of the call.
 *
 * A guard is one of these, and a row past its time is none (spans are half open: what ends at t is over at t):
 * - running until its lease ends; after that, by its mode, failed since that instant or stuck for good;
 * - done, with its result, for `keepMs` from then on;
 * - failed: free to be claimed, its attempts remembered for `keepMs`, so that the next claim is attempt + 1.
 *
 * `space` keeps the keys of different users of this store apart: 'once' (callers' keys), 'processing' (running tasks),
 * 'monitor.task', 'monitor.event'. With `tx`, a step is taken in that transaction of the caller's; engines that cannot
 * throw `transaction_unsupported`.
 */
export interface GuardStore extends TransactionEnder {
  /**
   * Claims each key, in the order given (a key twice in one call: the second sees the first). A token is
   * `<number>.<nonce>` as in backends/token.ts, the number = max(that of the claim before + 1, store time in µs), so it
   * rises for ever, also when the key was forgotten. Mode, keepMs and fingerprint are those of the claim that runs; a
   * take-over writes its own. `mismatch`: the key is running, done or stuck with another fingerprint (null is one, too).
   */
  claim(asks: readonly GuardAsk[], tx?: unknown): Promise<readonly GuardStanding[]>
  /**
   * Ends or keeps claims; answers for each whether it took. It takes while the guard is running with this token and its
   * lease is live; an at-most-once guard also after that, while it is stuck (no other claim can have begun). In the order
   * given: a token that is settled twice in one call took once.
   */
  settle(ends: readonly GuardEnd[], tx?: unknown): Promise<readonly boolean[]>
  /**
   * Another `leaseMs` from the store's now, never less than there is; the new end, or undefined when it is not ours (any
   * more). Ours is what `settle` would take: a stuck guard runs again.
   */
  renew(ref: GuardRef, leaseMs: number, tx?: unknown): Promise<number | undefined>
  /** Forgets a key whatever it is; false when there was none, or only a row past its time. */
  forget(space: string, key: string): Promise<boolean>
  /**
   * Windows: for each ask, whether it was notified within its window. The first in a window answers false and opens
   * `[now, now + windowMs)`; a repeat answers true and changes nothing. One with another `value` under the same `window`
   * answers false and replaces it.
   */
  seen(asks: readonly WindowAsk[], tx?: unknown): Promise<readonly boolean[]>
  /**
   * Guards of a space that are running, done, failed or stuck, by key where the engine has an order. `cursor` is what the
   * page before answered.
   */
  list(query: GuardQuery): Promise<{ readonly items: readonly Guard[]; readonly cursor: string | null }>
  /**
   * Forgets up to `limit` rows past their time, guards and windows of this namespace together, never one that is stuck;
   * answers how many. Engines that forget by themselves answer 0.
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

/** JSON text where users gave the value. */
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

/** `released` forgets the key at once. */
export interface GuardEnd extends GuardRef {
  readonly end: 'done' | 'failed' | 'released'
  /** JSON text; only of `done`. */
  readonly result: string | null
}

export interface WindowAsk {
  /** SHA-256 in hexadecimal of what the window is about. */
  readonly window: string
  /** SHA-256 in hexadecimal, or the empty text where the window says it all. */
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

/** What becomes of a key whose claim ran out without an end: claimable again, or stuck until an operator looks. */
export type GuardMode = 'at-least-once' | 'at-most-once'

/** What a claim came to. `degraded`: the store did not answer, and the declared policy spoke in its place. */
export type ClaimAnswer = (
  | { readonly status: 'run'; readonly token: string; readonly attempt: number }
  | { readonly status: 'running'; readonly retryInMs: number }
  | { readonly status: 'done'; readonly result: unknown }
  | { readonly status: 'stuck' }
) & { readonly degraded?: true }

/** What `run` and `processing` came to. */
export type RunAnswer<Result> =
  | { readonly ran: true; readonly result: Result; readonly degraded?: true }
  | {
      readonly ran: false
      readonly status: 'running' | 'done' | 'stuck'
      readonly result?: unknown
      readonly retryInMs?: number
      readonly degraded?: true
    }

/** Whether this was notified recently; false means: notify. */
export interface SeenAnswer {
  readonly seen: boolean
  readonly degraded?: true
}

/** A guard as operators see it; no token. */
export interface Guard {
  readonly key: string
  readonly status: 'running' | 'done' | 'failed' | 'stuck'
  readonly mode: GuardMode
  readonly attempt: number
  readonly claimedAt: number
  /** When the claim ends, or when the result is forgotten; null: it is stuck. */
  readonly endsAt: number | null
}

/** A guard as a store lists it. */
export type GuardRecord = Guard
