import { SignalboxError } from '../../core/errors.ts'
import type { ClaimedRecord } from '../job-store.ts'
import type { Attempt } from './attempt.ts'
import type { Executor } from './executor.ts'
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

/** How a batch gets more jobs. */
export interface Gathering {
  /** Claims up to `limit` more jobs of this kind. */
  readonly claim: (kind: string, limit: number) => Promise<readonly ClaimedRecord[]>
  /** Waits until there may be new jobs, at most `ms`. False: the batch should stop waiting. */
  readonly waitForJobs: (ms: number) => Promise<boolean>
}

/** The batches of a worker. A batch begins when its first job gets a slot. */
export class Batches {
  readonly #executor: Executor
  readonly #gathering: Gathering
  /** Batches that have a slot and still collect jobs. */
  readonly #filling = new Map<Batch, Promise<void>>()
  #isOpen = true

  constructor(executor: Executor, gathering: Gathering) {
    this.#executor = executor
    this.#gathering = gathering
  }

  /** Adds the job to a batch that still collects jobs. False: there is none for its handler. */
  join(attempt: Attempt): boolean {
    if (attempt.handler.batch === undefined || !this.#isOpen) return false
    for (const batch of this.#filling.keys()) {
      if (batch.handler !== attempt.handler || batch.missing <= 0) continue
      batch.add(attempt)
      return true
    }
    return false
  }

  /** Starts a batch with a job that has a slot: collects jobs from the buffer, then from the store, and runs them. */
  fill(first: Attempt): void {
    const executor = this.#executor
    const batch = new Batch(first.record.kind, first.handler as BatchHandler)
    batch.add(first)
    for (const attempt of executor.takeWaiting(batch.handler, batch.missing)) batch.add(attempt)
    if (batch.missing === 0) {
      this.#begin(batch)
      return
    }
    const filled = this.#gather(batch).then(() => {
      this.#filling.delete(batch)
      this.#begin(batch)
    })
    this.#filling.set(batch, filled)
  }

  /** Claims more jobs until the batch is full or its time is over. */
  async #gather(batch: Batch): Promise<void> {
    const { claim, waitForJobs } = this.#gathering
    const until = performance.now() + batch.handler.batch.waitMs
    while (batch.missing > 0 && this.#isOpen) {
      const sentAt = performance.now()
      try {
        this.#receive(batch, await claim(batch.kind, batch.missing), sentAt)
        const leftMs = until - performance.now()
        if (leftMs <= 0 || batch.missing <= 0 || !this.#isOpen) return
        if (!(await Promise.race([waitForJobs(leftMs), batch.full.then(() => true)]))) return
        if (performance.now() >= until) return
      } catch (error) {
        // The batch runs with the jobs that it has. The fetcher keeps trying to reach the store.
        this.#executor.warn('A batch could not be filled up.', error)
        return
      }
    }
  }

  #receive(batch: Batch, records: readonly ClaimedRecord[], sentAt: number): void {
    for (const record of records) {
      const attempt = this.#executor.hold(record, sentAt)
      // Jobs of the fetcher may have filled the batch meanwhile.
      if (batch.missing > 0) batch.add(attempt)
      else this.#executor.enqueue(attempt)
      if (!this.#isOpen) this.#executor.handBack(attempt)
    }
  }

  /** Stops collecting and hands back the jobs of batches that have not started. */
  handBack(): void {
    this.#isOpen = false
    for (const batch of this.#filling.keys())
      for (const attempt of batch.attempts) this.#executor.handBack(attempt)
  }

  reopen(): void {
    this.#isOpen = true
  }

  /** Stops collecting. Resolves when no claim for a batch is in flight. */
  async stopFilling(): Promise<void> {
    this.#isOpen = false
    await Promise.all(this.#filling.values())
  }

  #begin(batch: Batch): void {
    const executor = this.#executor
    // The worker may have lost or handed back some jobs meanwhile.
    for (const attempt of batch.dropEnded()) executor.freeSlot(attempt)
    if (batch.attempts.length === 0) {
      executor.pump()
      return
    }
    for (const attempt of batch.attempts) executor.startRunning(attempt)
    // A job that cannot be read fails alone.
    const refused = (attempt: Attempt, error: unknown) => queueMicrotask(() => executor.threw(attempt, error))
    executor.callBatch(
      batch.attempts,
      () => batch.run(refused),
      (value) => this.#returned(batch, value),
      (error) => this.#threw(batch, error),
    )
  }

  #returned(batch: Batch, value: unknown): void {
    let ends: (id: string) => BatchEnd
    try {
      ends = readBatchEnds(batch.kind, batch.jobIds, value)
    } catch (error) {
      this.#threw(batch, error)
      return
    }
    for (const attempt of batch.attempts) {
      const end = ends(attempt.jobId)
      if ('error' in end && !attempt.isEnded) this.#executor.threw(attempt, end.error)
      else this.#executor.returned(attempt, 'result' in end ? end.result : undefined)
    }
  }

  #threw(batch: Batch, error: unknown): void {
    // The error fails the jobs that have not ended. If all have ended, the first one reports it as late.
    const isLate = batch.attempts.every(({ isEnded }) => isEnded)
    for (const attempt of batch.attempts) {
      const reportsError = !attempt.isEnded || (isLate && attempt === batch.attempts[0])
      if (reportsError) this.#executor.threw(attempt, error)
      else this.#executor.returned(attempt, undefined)
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
