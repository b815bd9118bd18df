/** Tasks that nodes speak of and the registry does not know: looked up in the store, a few at a time. */
import type { JobRecord, JobStore } from '../../jobs/index.ts'

const maxActive = 8
const maxQueued = 10_000
const retryMs = 200

/**
 * Finds tasks in the background. What the store does not answer is asked again until it does: a node may be
 * closed for new work until then. What does not fit is dropped: nodes say it again.
 */
export class Lookups {
  readonly #store: Pick<JobStore, 'find'>
  readonly #onTrouble: (error: unknown) => void
  #queue: { readonly taskId: string; readonly found: (record: JobRecord | undefined) => void }[] = []
  #active = 0
  #isStopped = false

  constructor(store: Pick<JobStore, 'find'>, onTrouble: (error: unknown) => void) {
    this.#store = store
    this.#onTrouble = onTrouble
  }

  ask(taskId: string, found: (record: JobRecord | undefined) => void): void {
    if (this.#isStopped || this.#queue.length >= maxQueued) return
    this.#queue.push({ taskId, found })
    if (this.#active < maxActive) void this.#work()
  }

  /** Asks no more. */
  stop(): void {
    this.#isStopped = true
    this.#queue = []
  }

  async #work(): Promise<void> {
    this.#active += 1
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        next.found(await this.#store.find(next.taskId))
      } catch (error) {
        this.#onTrouble(error)
        if (!this.#isStopped) this.#queue.push(next)
        await new Promise((resolve) => setTimeout(resolve, retryMs))
      }
    }
    this.#active -= 1
  }
}
