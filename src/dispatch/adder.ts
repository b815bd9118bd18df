/** Writes new tasks, many at a time: those of one turn, and those that came while a write was under way. */
import type { JobStore, NewJob } from '../jobs/index.ts'

const maxBatch = 500

interface Entry {
  readonly job: NewJob
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Adds jobs in group commits. */
export class Adder {
  readonly #store: Pick<JobStore, 'add'>
  #waiting: Entry[] = []
  #isWriting = false

  constructor(store: Pick<JobStore, 'add'>) {
    this.#store = store
  }

  /** Resolves when it is durable. */
  add(job: NewJob): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ job, resolve, reject })
      if (this.#isWriting) return
      this.#isWriting = true
      setImmediate(() => void this.#write())
    })
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxBatch)
      try {
        await this.#store.add(batch.map(({ job }) => job))
        for (const { resolve } of batch) resolve()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isWriting = false
  }
}
