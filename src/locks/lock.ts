import type { Failure } from '../core/describe-error.ts'
import type { Duration } from '../core/duration.ts'
import type { LockKey, WaiterView } from './lock-store.ts'
import type { HolderView, LastOutcome, Want } from './rules/index.ts'

/** The requester and the lock it asks for. */
export interface LockRequest extends LockKey {
  /** The name of the requester: a machine, a process, a worker. */
  readonly node: string
  /** Distinguishes requests of a node. Asking again with the same one gets the same answer. @default the node's name */
  readonly requestId?: string | undefined
}

export interface AcquireOptions extends LockRequest {
  /** Wait if the lock is busy; false: get `refused`. @default true */
  readonly wait?: boolean | undefined
  /** `result`: leave after another requester's success. `turn`: wait for a turn anyway. @default 'result' */
  readonly want?: Want | undefined
  /** How long a grant lasts without renewal: 100 ms to 24 h. @default 30_000 */
  readonly ttlMs?: Duration | undefined
  /** How long to wait in the queue at most. @default no limit */
  readonly deadlineMs?: Duration | null | undefined
}

/** The answer to `acquire`. Instants are epoch milliseconds. */
export type AcquireAnswer =
  | {
      readonly status: 'granted'
      /** The fence: pass it to whatever the lock guards. It rises with every grant of the key, for ever. */
      readonly token: number
      readonly expiresAt: number
      /** 1 for the first attempt; one more after each failure or lost lease. */
      readonly attempt: number
    }
  | { readonly status: 'queued'; readonly position: number }
  | { readonly status: 'refused'; readonly holder: LockHolder | null }
  | { readonly status: 'completed'; readonly result: unknown }
  | { readonly status: 'failed'; readonly error: Failure }

/** The holder of a lock, as people see it. */
export interface LockHolder extends Omit<HolderView, 'progress'> {
  /** The holder's last progress: any JSON value. */
  readonly progress: unknown
}

export type LockWaiter = WaiterView

/** A wait queue as people see it. */
export interface LockQueue extends LockKey {
  readonly holder: LockHolder | null
  readonly waiters: readonly LockWaiter[]
  readonly waiterCount: number
  readonly lastOutcome: LockOutcome | null
}

export interface LockOutcome extends Omit<LastOutcome, 'value'> {
  readonly result?: unknown
  readonly error?: Failure
}

/** An event of a wait queue, for its waiters and watchers. `id` rises strictly. */
export type LockEvent = { readonly id: number } & (
  | {
      readonly type: 'queued'
      /** A waiter gets its own position; an observer of the wait queue gets the number of waiters. */
      readonly position: number
    }
  | {
      readonly type: 'granted'
      readonly node: string
      readonly attempt: number
      readonly expiresAt: number
      /** Only in the event that the new holder gets. */
      readonly token?: number
    }
  | { readonly type: 'progress'; readonly node: string; readonly progress: unknown }
  | { readonly type: 'completed'; readonly result: unknown }
  | { readonly type: 'failed'; readonly error: Failure }
  | { readonly type: 'timeout' }
  | { readonly type: 'evicted' }
  | { readonly type: 'lost' }
  /** The wait queue as it is now: the first event of a watcher, or earlier events are lost. */
  | ({ readonly type: 'reset' } & LockQueue)
)
