import { SignalboxError } from '../../core/errors.ts'
import type { ClaimedRecord } from '../job-store.ts'
import type { Attempt } from './attempt.ts'
import type { RunningJob } from './handler-job.ts'
import type { BatchHandler, HandlerContext } from './worker-options.ts'

/**
 * Jobs of one kind in one call of their handler, in one place among those that run. Each keeps its own lease, time-out,
 * cancellation request and end; the call is theirs together.
 *
 *     first job has a place ──▶ gather: what waits here, then what the store has, for up to `waitMs` ──▶ run ──▶ settle
 */
export class Batch implements HandlerContext {
  readonly kind: string
  readonly handler: BatchHandler
  readonly attempts: Attempt[] = []
  /** Its jobs that still have a part in its place. */
  readonly #inPlace = new Set<Attempt>()
  #controller: AbortController | undefined
  #abortReason: unknown
  /** When it is as large as it may be. */
  readonly full: Promise<void>
  readonly #isFull: () => void
  /** The jobs that its handler was given, in order. */
  readonly jobIds: string[] = []

  constructor(kind: string, handler: BatchHandler) {
    this.kind = kind
    this.handler = handler
    const { promise, resolve } = Promise.withResolvers<void>()
    this.full = promise
    this.#isFull = resolve
  }

  get missing(): number {
    return this.handler.batch.size - this.attempts.length
  }

  add(attempt: Attempt): void {
    attempt.batch = this
    this.attempts.push(attempt)
    this.#inPlace.add(attempt)
    if (this.missing === 0) this.#isFull()
  }

  /** Takes out those that ended before it began. */
  dropEnded(): readonly Attempt[] {
    const ended = this.attempts.filter(({ isEnded }) => isEnded)
    if (ended.length > 0) {
      const open = this.attempts.filter(({ isEnded }) => !isEnded)
      this.attempts.splice(0, this.attempts.length, ...open)
    }
    return ended
  }

  /** True when it was the last one. */
  leave(attempt: Attempt): boolean {
    return this.#inPlace.delete(attempt) && this.#inPlace.size === 0
  }

  /** Aborts when none of its jobs is wanted any more; each job has a signal of its own. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason)
    }
    return this.#controller.signal
  }

  /** One of its jobs was aborted. */
  aborted(reason: unknown): void {
    if (
      this.#abortReason !== undefined ||
      !this.attempts.every((attempt) => attempt.isAborted || attempt.isEnded)
    )
      return
    this.#abortReason = reason
    this.#controller?.abort(reason)
  }

  /** Calls the handler with those of its jobs that can be read; the others are `refused`. */
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
 * What a batch's handler returned, for one job after the other. An array has an outcome for each of its jobs, in order;
 * a Map has them by id, and jobs that are not in it are done; anything else is the same as nothing: all are done. An
 * outcome is a result, an Error, or what `Promise.allSettled` makes of either. Throws when it cannot be told apart.
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

/** What a batch that is being gathered needs of its worker. */
export interface GatherParts {
  /** Takes up to so many more of the kind in hand. */
  readonly claim: (kind: string, limit: number) => Promise<readonly ClaimedRecord[]>
  readonly take: (records: readonly ClaimedRecord[], sentAt: number) => void
  /** Waits for news, at most so long; false: there is no use in waiting. */
  readonly rest: (ms: number) => Promise<boolean>
  readonly isOpen: () => boolean
}

/** Fills a batch up. Never rejects when `take` does not. */
export async function gather(
  batch: Batch,
  parts: GatherParts,
  onTrouble: (error: unknown) => void,
): Promise<void> {
  const { waitMs } = batch.handler.batch
  const until = performance.now() + waitMs
  while (batch.missing > 0 && parts.isOpen()) {
    const sentAt = performance.now()
    try {
      parts.take(await parts.claim(batch.kind, batch.missing), sentAt)
      const leftMs = until - performance.now()
      if (leftMs <= 0 || batch.missing <= 0 || !parts.isOpen()) return
      if (!(await Promise.race([parts.rest(leftMs), batch.full.then(() => true)]))) return
      if (performance.now() >= until) return
    } catch (error) {
      // It goes with what it has; the worker's own claims will tell when the store is back.
      onTrouble(error)
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
