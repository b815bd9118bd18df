/**
 * Tasks that were handed back for their next attempt. They come again by being claimed; one that does not was claimed
 * elsewhere or ended in the store, and the registry must not wait for it for ever.
 */
import type { JobRecord, JobStore } from '../../jobs/index.ts'

/** How long after it could be claimed this process looks for it. */
const patienceMs = 3_000
const looksPerStep = 200
const looksAtOnce = 8
/** More than this are not waited for: the eldest of them are given up first. */
const maxKept = 20_000

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
    for (const taskId of this.#dueAt.keys()) {
      if (this.#dueAt.size <= maxKept) break
      this.#dueAt.delete(taskId)
      gone(taskId, undefined)
    }
    const overdue: string[] = []
    for (const [taskId, dueAt] of this.#dueAt) {
      if (overdue.length >= looksPerStep) break
      if (dueAt + patienceMs <= now) overdue.push(taskId)
    }
    const look = async () => {
      for (let taskId = overdue.pop(); taskId !== undefined; taskId = overdue.pop()) {
        const record = await store.find(taskId)
        // Claimed here while we looked.
        if (!this.#dueAt.delete(taskId)) continue
        const isComing = record?.state === 'ready' || record?.state === 'scheduled'
        if (isComing) this.#dueAt.set(taskId, now)
        else gone(taskId, record)
      }
    }
    await Promise.all(Array.from({ length: looksAtOnce }, look))
  }
}
