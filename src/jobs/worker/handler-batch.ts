import { SignalboxError } from '../../core/errors.ts'
import type { ClaimedRecord } from '../job-store.ts'
import type { Attempt } from './attempt.ts'
import type { RunningJob } from './handler-job.ts'
import type { BatchHandler, HandlerContext } from './worker-options.ts'

/**
 * Jobs of one kind that share one call of their handler and one slot of the executor. Each job keeps its own lease,
 * time-out, cancellation request and verdict.
 *
 *     first job gets a slot ──▶ gather: from the buffer, then from the store, for up to `waitMs` ──▶ run ──▶ settle
 */
export class Batch implements HandlerContext {
  readonly kind: string
  readonly handler: BatchHandler
  readonly attempts: Attempt[] = []
  /** The attempts that still use the slot. */
  readonly #active = new Set<Attempt>()
  #controller: AbortController | undefined
  #abortReason: unknown
  /** Resolves when the batch has as many jobs as it may have. */
  readonly full: Promise<void>
  readonly #resolveFull: () => void
  /** The jobs that the handler got, in order. */
  readonly jobIds: string[] = []

  constructor(kind: string, handler: BatchHandler) {
    this.kind = kind
    this.handler = handler
    const { promise, resolve } = Promise.withResolvers<void>()
    this.full = promise
    this.#resolveFull = resolve
  }

  get missing(): number {
    return this.handler.batch.size - this.attempts.length
  }

  add(attempt: Attempt): void {
    attempt.batch = this
    this.attempts.push(attempt)
    this.#active.add(attempt)
    if (this.missing === 0) this.#resolveFull()
  }

  /** Removes and returns the attempts that ended before the batch started. */
  dropEnded(): readonly Attempt[] {
    const ended = this.attempts.filter(({ isEnded }) => isEnded)
    if (ended.length > 0) {
      const open = this.attempts.filter(({ isEnded }) => !isEnded)
      this.attempts.splice(0, this.attempts.length, ...open)
    }
    return ended
  }

  /** True for the last attempt: the batch no longer needs its slot. */
  leave(attempt: Attempt): boolean {
    return this.#active.delete(attempt) && this.#active.size === 0
  }

  /** Aborts when every job has ended or was aborted. Each job also has its own signal. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason)
    }
    return this.#controller.signal
  }

  /** An attempt of this batch was aborted. */
  attemptAborted(reason: unknown): void {
    if (
      this.#abortReason !== undefined ||
      !this.attempts.every((attempt) => attempt.isAborted || attempt.isEnded)
    )
      return
    this.#abortReason = reason
    this.#controller?.abort(reason)
  }

  /** Calls the handler with the jobs that can be read, and `refused` for each of the others. */
  run(refused: (attempt: Attempt, error: unknown) => void): unknown {
    const jobs: RunningJob[] = []
    for (const attempt of this.attempts) {
      try {
        jobs.push(attempt.begin())
        this.jobIds.push(attempt.jobId)
      } catch (error) {
        refused(attempt, error)
      }
    }
    return jobs.length === 0 ? undefined : this.handler.runBatch(jobs, this)
  }
}

/** How one job of a batch ended. */
export type BatchEnd = { readonly result: unknown } | { readonly error: unknown }

/**
 * Reads the end of each job from what a batch handler returned. An array has one outcome for each job, in order. A Map
 * has outcomes by job id; jobs that are not in it are completed. With any other value all jobs are completed. An
 * outcome is a result, an Error, or an entry of `Promise.allSettled`. Throws when an array has another length than the
 * batch.
 */
export function readBatchEnds(
  kind: string,
  jobIds: readonly string[],
  returned: unknown,
): (id: string) => BatchEnd {
  if (returned instanceof Map) return (id) => endOf(returned.get(id))
  if (!Array.isArray(returned)) return () => ({ result: undefined })
  if (returned.length !== jobIds.length) throw notForEach(kind, returned.length, jobIds.length)
  const byId = new Map(jobIds.map((id, index) => [id, returned[index] as unknown]))
  return (id) => endOf(byId.get(id))
}

function endOf(outcome: unknown): BatchEnd {
  if (outcome instanceof Error) return { error: outcome }
  if (typeof outcome !== 'object' || outcome === null) return { result: outcome }
  const { status, reason, value } = outcome as { status?: unknown; reason?: unknown; value?: unknown }
  if (status === 'rejected' && 'reason' in outcome) return { error: reason }
  if (status === 'fulfilled' && 'value' in outcome) return { result: value }
  return { result: outcome }
}

/** What a batch needs from its worker to collect jobs. */
export interface GatherParts {
  /** Claims up to `limit` more jobs of this kind. */
  readonly claim: (kind: string, limit: number) => Promise<readonly ClaimedRecord[]>
  readonly receive: (records: readonly ClaimedRecord[], sentAt: number) => void
  /** Waits until there may be new jobs, at most `ms`. False: the batch should stop waiting. */
  readonly waitForJobs: (ms: number) => Promise<boolean>
  readonly isOpen: () => boolean
}

/** Fills a batch. Never rejects unless `onError` throws. */
export async function gather(
  batch: Batch,
  parts: GatherParts,
  onError: (error: unknown) => void,
): Promise<void> {
  const { waitMs } = batch.handler.batch
  const until = performance.now() + waitMs
  while (batch.missing > 0 && parts.isOpen()) {
    const sentAt = performance.now()
    try {
      parts.receive(await parts.claim(batch.kind, batch.missing), sentAt)
      const leftMs = until - performance.now()
      if (leftMs <= 0 || batch.missing <= 0 || !parts.isOpen()) return
      if (!(await Promise.race([parts.waitForJobs(leftMs), batch.full.then(() => true)]))) return
      if (performance.now() >= until) return
    } catch (error) {
      // The batch runs with the jobs that it has. The fetcher keeps trying to reach the store.
      onError(error)
      return
    }
  }
}

export function notForEach(kind: string, got: number, wanted: number): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `The batch handler of "${kind}" returned an array of ${got} for ${wanted} jobs. Return nothing, one outcome for each job in order, or a Map of outcomes by job id.`,
    { details: { kind, outcomeCount: got, jobCount: wanted } },
  )
}
