import type { ClaimedRecord } from '../job-store.ts'
import type { Attempt } from './attempt.ts'
import { Batch, type BatchEnd, type GatherParts, gather, readBatchEnds } from './handler-batch.ts'
import type { BatchHandler } from './worker-options.ts'

/** What batches need of the executor they are run by. */
export interface BatchHost {
  /** Holds a job that was claimed at that moment. */
  hold(record: ClaimedRecord, sentAt: number): Attempt
  /** Lets it wait for a place with the others. */
  wait(attempt: Attempt): void
  /** Takes up to `limit` attempts that wait for this handler. */
  takeWaiting(handler: BatchHandler, limit: number): readonly Attempt[]
  /** It runs from now on. */
  enter(attempt: Attempt): void
  /** Gives up its part in its batch's place. */
  vacate(attempt: Attempt): void
  handBack(attempt: Attempt): void
  /** Calls a handler; none of what it does is heard before this turn is over. */
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

/** The batches of a worker, from the first job that has a place to the end of each. */
export class Batches {
  readonly #host: BatchHost
  readonly #gathering: Pick<GatherParts, 'claim' | 'rest'>
  /** Those that have a place and are being filled up. */
  readonly #filling = new Map<Batch, Promise<void>>()
  #isOpen = true

  constructor(host: BatchHost, gathering: Pick<GatherParts, 'claim' | 'rest'>) {
    this.#host = host
    this.#gathering = gathering
  }

  /** Whether the job found a place in a batch that is being filled up. */
  join(attempt: Attempt): boolean {
    if (attempt.handler.batch === undefined || !this.#isOpen) return false
    for (const batch of this.#filling.keys()) {
      if (batch.handler !== attempt.handler || batch.missing <= 0) continue
      batch.add(attempt)
      return true
    }
    return false
  }

  /** A job has a place: gathers others for it, first of those that wait here, and begins when that is done. */
  fill(first: Attempt): void {
    const host = this.#host
    const batch = new Batch(first.record.kind, first.handler as BatchHandler)
    batch.add(first)
    for (const attempt of host.takeWaiting(batch.handler, batch.missing)) batch.add(attempt)
    if (batch.missing === 0) {
      this.#begin(batch)
      return
    }
    const take = (records: readonly ClaimedRecord[], sentAt: number) => {
      for (const record of records) {
        const attempt = host.hold(record, sentAt)
        // The worker's own claims may have filled it up meanwhile.
        if (batch.missing > 0) batch.add(attempt)
        else host.wait(attempt)
        if (!this.#isOpen) host.handBack(attempt)
      }
    }
    const parts = { ...this.#gathering, take, isOpen: () => this.#isOpen }
    const filled = gather(batch, parts, (error) => host.warn('A batch could not be filled up.', error)).then(
      () => {
        this.#filling.delete(batch)
        this.#begin(batch)
      },
    )
    this.#filling.set(batch, filled)
  }

  /** Nothing more is gathered; gives back what has not begun. */
  handBack(): void {
    this.#isOpen = false
    for (const batch of this.#filling.keys())
      for (const attempt of batch.attempts) this.#host.handBack(attempt)
  }

  reopen(): void {
    this.#isOpen = true
  }

  /** Gathers no more; resolves when nothing is being claimed for a batch. */
  async settle(): Promise<void> {
    this.#isOpen = false
    await Promise.all(this.#filling.values())
  }

  #begin(batch: Batch): void {
    const host = this.#host
    // Some may have been lost or handed back while it was filled up.
    for (const attempt of batch.dropEnded()) host.vacate(attempt)
    if (batch.attempts.length === 0) {
      host.pump()
      return
    }
    for (const attempt of batch.attempts) host.enter(attempt)
    // How those end that cannot be read does not depend on the others.
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
    // Those that were ended singly have nothing to do with it, unless it is nobody else's.
    const isLate = batch.attempts.every(({ isEnded }) => isEnded)
    for (const attempt of batch.attempts) {
      const isMeant = !attempt.isEnded || (isLate && attempt === batch.attempts[0])
      if (isMeant) this.#host.threw(attempt, error)
      else this.#host.returned(attempt, undefined)
    }
  }
}
