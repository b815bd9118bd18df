import type { ClaimedRecord } from '../job-store.ts'
import type { Attempt } from './attempt.ts'
import { Batch, type BatchEnd, type GatherParts, gather, readBatchEnds } from './handler-batch.ts'
import type { BatchHandler } from './worker-options.ts'

/** What batches need from their executor. */
export interface BatchHost {
  /** Creates the attempt for a job whose claim was sent at `sentAt`. */
  hold(record: ClaimedRecord, sentAt: number): Attempt
  /** Puts the attempt into the buffer, where it waits for a slot. */
  enqueue(attempt: Attempt): void
  /** Takes up to `limit` attempts for this handler from the buffer. */
  takeWaiting(handler: BatchHandler, limit: number): readonly Attempt[]
  /** Marks the attempt as running and starts its time-out. */
  startRunning(attempt: Attempt): void
  /** Frees the slot of the batch if this is its last attempt. */
  freeSlot(attempt: Attempt): void
  handBack(attempt: Attempt): void
  /** Calls a handler. Its effects reach the executor only in a later turn of the event loop. */
  call(
    attempts: readonly Attempt[],
    run: () => unknown,
    returns: (value: unknown) => void,
    throws: (error: unknown) => void,
  ): void
  returned(attempt: Attempt, value: unknown): void
  threw(attempt: Attempt, error: unknown): void
  pump(): void
  warn(message: string, error: unknown): void
}

/** The batches of a worker. A batch begins when its first job gets a slot. */
export class Batches {
  readonly #host: BatchHost
  readonly #gathering: Pick<GatherParts, 'claim' | 'waitForJobs'>
  /** Batches that have a slot and still collect jobs. */
  readonly #filling = new Map<Batch, Promise<void>>()
  #isOpen = true

  constructor(host: BatchHost, gathering: Pick<GatherParts, 'claim' | 'waitForJobs'>) {
    this.#host = host
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
    const host = this.#host
    const batch = new Batch(first.record.kind, first.handler as BatchHandler)
    batch.add(first)
    for (const attempt of host.takeWaiting(batch.handler, batch.missing)) batch.add(attempt)
    if (batch.missing === 0) {
      this.#begin(batch)
      return
    }
    const receive = (records: readonly ClaimedRecord[], sentAt: number) => {
      for (const record of records) {
        const attempt = host.hold(record, sentAt)
        // Jobs of the fetcher may have filled the batch meanwhile.
        if (batch.missing > 0) batch.add(attempt)
        else host.enqueue(attempt)
        if (!this.#isOpen) host.handBack(attempt)
      }
    }
    const parts = { ...this.#gathering, receive, isOpen: () => this.#isOpen }
    const filled = gather(batch, parts, (error) => host.warn('A batch could not be filled up.', error)).then(
      () => {
        this.#filling.delete(batch)
        this.#begin(batch)
      },
    )
    this.#filling.set(batch, filled)
  }

  /** Stops collecting and hands back the jobs of batches that have not started. */
  handBack(): void {
    this.#isOpen = false
    for (const batch of this.#filling.keys())
      for (const attempt of batch.attempts) this.#host.handBack(attempt)
  }

  reopen(): void {
    this.#isOpen = true
  }

  /** Stops collecting. Resolves when no claim for a batch is in flight. */
  async settle(): Promise<void> {
    this.#isOpen = false
    await Promise.all(this.#filling.values())
  }

  #begin(batch: Batch): void {
    const host = this.#host
    // The worker may have lost or handed back some jobs meanwhile.
    for (const attempt of batch.dropEnded()) host.freeSlot(attempt)
    if (batch.attempts.length === 0) {
      host.pump()
      return
    }
    for (const attempt of batch.attempts) host.startRunning(attempt)
    // A job that cannot be read fails alone.
    const refused = (attempt: Attempt, error: unknown) => queueMicrotask(() => host.threw(attempt, error))
    host.call(
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
      if ('error' in end && !attempt.isEnded) this.#host.threw(attempt, end.error)
      else this.#host.returned(attempt, 'result' in end ? end.result : undefined)
    }
  }

  #threw(batch: Batch, error: unknown): void {
    // The error fails the jobs that have not ended. If all have ended, the first one reports it as late.
    const isLate = batch.attempts.every(({ isEnded }) => isEnded)
    for (const attempt of batch.attempts) {
      const reportsError = !attempt.isEnded || (isLate && attempt === batch.attempts[0])
      if (reportsError) this.#host.threw(attempt, error)
      else this.#host.returned(attempt, undefined)
    }
  }
}
