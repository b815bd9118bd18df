/** What becomes of a key whose claim ran out without an end: claimable again, or stuck until somebody looked. */
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
  /** When the claim ends, or when what is kept is forgotten; null for one that is stuck. */
  readonly endsAt: number | null
}
