/**
 * One call on a wait queue and its answer, as the caller saw it. `from` and `to` give the order of sends and answers; times
 * are of the host's clock, by which the stores' leases count as well.
 */
export interface LockOperation {
  readonly client: string
  /** The wait queue's name. */
  readonly queue: string
  readonly call: LockCall
  readonly from: number
  readonly to: number
  readonly sentAt: number
  /** The time of the answer. Without one: the time after which the call certainly could not take effect. */
  readonly endedAt: number
  /** Undefined: the server was killed or the connection cut. It may have taken effect or not. */
  readonly answer: LockAnswer | undefined
}

/** `who` is a node and one of its requests, in one word. */
export type LockCall =
  | {
      readonly step: 'acquire'
      readonly who: string
      readonly wait: boolean
      readonly want: 'result' | 'turn'
      readonly ttlMs: number
      readonly deadlineMs: number | null
      readonly isStreamed: boolean
    }
  | {
      readonly step: 'release'
      readonly who: string
      readonly token: number
      readonly outcome: 'success' | 'failure'
      readonly terminal: boolean
      readonly value: string
    }
  | { readonly step: 'renew'; readonly who: string; readonly token: number; readonly ttlMs: number }
  | { readonly step: 'shorten'; readonly who: string; readonly token: number; readonly toMs: number }
  | { readonly step: 'leave'; readonly who: string }
  | { readonly step: 'evict'; readonly who: string }
  | { readonly step: 'keep'; readonly who: string; readonly isStreamed: boolean }
  | { readonly step: 'inspect' }

export type LockAnswer =
  | {
      readonly is: 'granted'
      readonly token: number
      readonly attempt: number
      readonly expiresAt: number
    }
  | { readonly is: 'queued'; readonly position: number }
  | { readonly is: 'refused'; readonly holder: string | null }
  | { readonly is: 'ended'; readonly kind: string; readonly value: string | null }
  | { readonly is: 'released'; readonly next: string | null }
  | { readonly is: 'renewed'; readonly expiresAt: number }
  | { readonly is: 'shortened' }
  | { readonly is: 'left' }
  | { readonly is: 'holding' }
  | { readonly is: 'evicted' }
  /** Not the holder's, not in the wait queue, not there: nothing was done. */
  | { readonly is: 'no' }
  | {
      readonly is: 'queue'
      readonly holder: string | null
      readonly attempt: number | null
      readonly waiters: readonly string[]
    }

/** The spans that a history was made with; all others are longer than it. */
export interface HistoryTimes {
  readonly streamedTakeUpMs: number
  readonly takeUpMs: number
}
