/** How many more than can be taken are looked at, of jobs that others may hold or that must wait. */
export const spareCount = 50

/** How many that must wait a look may pass without it being too many, where there are few keys. */
export const passedAllowed = 500

/**
 * How to look for jobs in queues that are limited by key, as this process remembers it. The front of the line is tried
 * first. Where it was not enough, claims go from key to key for a second; and where it was, but only past many jobs that
 * must wait, they do so if there are few keys, for then that is less work.
 */
export class LimitFronts {
  readonly #queues = new Map<string, Kept>()

  mayTry(queue: string): boolean {
    return performance.now() >= (this.#queues.get(queue)?.byKeyUntil ?? 0)
  }

  /** There may have been more behind what was looked at. */
  fellShort(queue: string): void {
    this.#goByKey(queue, false)
  }

  /** It was enough, behind so many that must wait. */
  passed(queue: string, count: number): void {
    if (count <= passedAllowed) return
    const kept = this.#queues.get(queue)
    const isCounted = kept !== undefined && performance.now() < kept.countedUntil
    if (!isCounted || kept.keyCount <= fewKeys) this.#goByKey(queue, true)
  }

  /** So many keys were looked at one by one. */
  saw(queue: string, keyCount: number): void {
    const kept = this.#queues.get(queue)
    const now = performance.now()
    // With so many the line is less work, where it is enough.
    const byKeyUntil = kept?.isEnough && keyCount > fewKeys ? 0 : (kept?.byKeyUntil ?? 0)
    this.#keep(queue, {
      byKeyUntil,
      isEnough: kept?.isEnough ?? false,
      keyCount,
      countedUntil: now + countedMs,
    })
  }

  #goByKey(queue: string, isEnough: boolean): void {
    const { keyCount = 0, countedUntil = 0 } = this.#queues.get(queue) ?? {}
    this.#keep(queue, { byKeyUntil: performance.now() + byKeyMs, isEnough, keyCount, countedUntil })
  }

  #keep(queue: string, kept: Kept): void {
    if (this.#queues.size > maxQueues) this.#queues.clear()
    this.#queues.set(queue, kept)
  }
}

interface Kept {
  readonly byKeyUntil: number
  /** Whether the front would be enough. */
  readonly isEnough: boolean
  readonly keyCount: number
  readonly countedUntil: number
}

const maxQueues = 1_000
const byKeyMs = 1_000
const countedMs = 10_000
const fewKeys = 100
