/** Writes new tasks, many at a time: those of one turn, and those that came while a write was under way. */
import type { JobStore, NewJob } from '../../jobs/index.ts'

/** What the adder needs. */
export interface AdderParts {
  readonly store: Pick<JobStore, 'add'>
  /** They are durable. */
  readonly added: (jobs: readonly NewJob[]) => void
  /** The write failed: it is unknown whether they are durable. */
  readonly failed: (jobs: readonly NewJob[]) => void
}

/** Jobs that are written together: they become durable, or fail, as one. */
interface Batch extends PromiseWithResolvers<void> {
  readonly jobs: NewJob[]
}

const maxBatch = 500

/** Adds jobs in group commits. */
export class Adder {
  readonly #parts: AdderParts
  readonly #waiting: Batch[] = []
  #isWriting = false

  constructor(parts: AdderParts) {
    this.#parts = parts
  }

  /** Resolves when it is durable. */
  add(job: NewJob): Promise<void> {
    let batch = this.#waiting.at(-1)
    if (batch === undefined || batch.jobs.length >= maxBatch) {
      batch = { jobs: [], ...Promise.withResolvers<void>() }
      this.#waiting.push(batch)
    }
    batch.jobs.push(job)
    if (!this.#isWriting) {
      this.#isWriting = true
      setImmediate(() => void this.#write())
    }
    return batch.promise
  }

  async #write(): Promise<void> {
    const { store, added, failed } = this.#parts
    for (let batch = this.#waiting.shift(); batch !== undefined; batch = this.#waiting.shift()) {
      try {
        await store.add(batch.jobs)
      } catch (error) {
        failed(batch.jobs)
        batch.reject(error)
        continue
      }
      added(batch.jobs)
      batch.resolve()
    }
    this.#isWriting = false
  }
}
