/**
 * What jobs ask of locks. A job stands in a line under its own name, and each of its asks has a name of its own, so that
 * asking again after a crash finds the same place, and a grant that was lost is never taken for the next one.
 */
export interface JobLocks {
  /** Asks, or asks again: the fence once it is granted; null while others are before it; `over` when this ask will come to nothing. */
  ask(ask: LockAsk): Promise<{ readonly fence: number } | 'waits' | 'over'>
  /** Keeps a grant; false: it is lost. */
  renew(ask: LockAsk, fence: number): Promise<boolean>
  /** Ends a turn, if it is still its own; answers the job that is next, where it is one. */
  release(ask: LockAsk, fence: number, outcome: 'success' | 'failure'): Promise<string | undefined>
  /** Leaves the line, if it still stands in it. */
  leave(ask: LockAsk): Promise<void>
  /** Calls `heard` when the ask may have been granted, until the returned function is called. */
  listen(ask: LockAsk, heard: () => void): () => void
}

/** One of a job's asks for its lock. */
export interface LockAsk {
  readonly operation: string
  readonly resource: string
  readonly jobId: string
  readonly askNo: number
}
