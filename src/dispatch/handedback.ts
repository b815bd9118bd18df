/**
 * Tasks that were handed back for their next attempt. They come again by being claimed; one that does not was claimed
 * elsewhere or ended in the store, and the registry must not wait for it for ever.
 */
import type { JobRecord, JobStore } from '../jobs/index.ts'

/** So long after it could be claimed, somebody looks where it is. */
const patienceMs = 3_000
const looksPerStep = 50

/** The tasks handed back and not seen since. */
export class HandedBack {
  readonly #dueAt = new Map<string, number>()

  get size(): number {
    return this.#dueAt.size
  }

  add(taskId: string, dueAt: number): void {
    this.#dueAt.set(taskId, dueAt)
  }

  delete(taskId: string): void {
    this.#dueAt.delete(taskId)
  }

  /** Looks after the overdue ones; `gone` learns of those that will not come, with what the store knows. */
  async check(
    store: Pick<JobStore, 'find'>,
    now: number,
    gone: (taskId: string, record: JobRecord | undefined) => void,
  ): Promise<void> {
    let left = looksPerStep
    for (const [taskId, dueAt] of this.#dueAt) {
      if (dueAt + patienceMs > now) continue
      if (left === 0) return
      left -= 1
      const record = await store.find(taskId)
      // Claimed here while we looked.
      if (!this.#dueAt.has(taskId)) continue
      const isComing = record?.state === 'ready' || record?.state === 'scheduled'
      this.#dueAt.delete(taskId)
      if (isComing) this.#dueAt.set(taskId, now)
      else gone(taskId, record)
    }
  }
}
