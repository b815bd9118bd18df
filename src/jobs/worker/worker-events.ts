import type { ClaimedJob } from '../job.ts'
import type { Verdict } from '../job-store.ts'

/** What a worker has done since it was made. */
export interface WorkerCounts {
  claimed: number
  completed: number
  failed: number
  handedBack: number
  snoozed: number
  lost: number
  ackMissing: number
}

/** What happens to a worker's jobs, for logs, metrics and tests. */
export interface WorkerEvents {
  completed: { readonly job: ClaimedJob }
  /** An attempt failed; `state` says what became of the job. */
  failed: { readonly job: ClaimedJob; readonly error: unknown; readonly state: Verdict['state'] }
  handedBack: { readonly job: ClaimedJob }
  /** A handler put its job off by so long, without burning an attempt. */
  snoozed: { readonly job: ClaimedJob; readonly delayMs: number }
  /** The lease was not ours any more; whatever the handler did, nothing was written. */
  lost: { readonly job: ClaimedJob }
  /** A handler threw or returned after its job had ended; nobody else will see it. */
  late: { readonly job: ClaimedJob; readonly error: unknown }
  /** Something that a person should know: a store that does not answer, a result that cannot be kept. */
  warning: { readonly message: string; readonly error?: unknown }
}
