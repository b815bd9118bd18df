import type { QueueStats } from '../jobs/index.ts'
import type { Space } from './call.ts'

/**
 * The counts of all queues of a namespace, for all who ask. Counting takes the longer the more jobs there are, and may
 * take a twentieth of the time, no more. Whoever asks while a long count is under way gets the one before.
 */
export interface QueueCounts {
  /** As they are now; where there are very many jobs, as they were a few seconds ago. */
  now(): Promise<readonly QueueStats[]>
  /** At most a second old; where counting takes long, a few. */
  recent(): Promise<readonly QueueStats[]>
  /** Somebody changed a queue: what is known is not to be shown any more. */
  forget(): void
}

/** How often the store is asked. */
export const queueCountLimits: {
  readonly keepMs: number
  /** The longest that a count is shown without another. */
  readonly mostMs: number
  /** How much of the time counting may take. */
  readonly share: number
  /** From here on nobody waits for a count but the first. */
  readonly longMs: number
  /** From so many jobs on even who asks for now gets a count that is shared. */
  readonly largeCount: number
} = { keepMs: 1_000, mostMs: 5_000, share: 0.05, longMs: 50, largeCount: 100_000 }

type Counted = Pick<Space['stores']['jobs'], 'stats'>

const known = new WeakMap<Counted, QueueCounts>()

/** The one of that store. Its counts are with those of the rooms' own queues. */
export function queueCountsOf({ jobs }: { readonly jobs: Counted }): QueueCounts {
  let counts = known.get(jobs)
  if (counts === undefined) {
    counts = new SharedCounts(jobs)
    known.set(jobs, counts)
  }
  return counts
}

class SharedCounts implements QueueCounts {
  readonly #store: Counted
  #at: number = Number.NEGATIVE_INFINITY
  #tookMs = 0
  #isLarge = false
  #changes = 0
  #lines: readonly QueueStats[] | undefined
  #underWay: Promise<readonly QueueStats[]> | undefined

  constructor(store: Counted) {
    this.#store = store
  }

  async now(): Promise<readonly QueueStats[]> {
    // By what there is and not by what it took, so that a machine that is busy for a moment shows nothing old. Not what is
    // under way either: it may have begun before the change that somebody wants to see.
    return this.#isLarge ? this.recent() : this.#count()
  }

  async recent(): Promise<readonly QueueStats[]> {
    const { keepMs, mostMs, share, longMs } = queueCountLimits
    const lines = this.#lines
    const ageMs = performance.now() - this.#at
    const freshMs = Math.min(mostMs, Math.max(keepMs, this.#tookMs / share))
    if (lines !== undefined && ageMs < freshMs) return lines
    this.#underWay ??= this.#begin()
    if (lines === undefined || this.#tookMs <= longMs || ageMs > 2 * mostMs) return this.#underWay
    // Whoever comes when it has failed is told.
    this.#underWay.catch(() => undefined)
    return lines
  }

  forget(): void {
    this.#changes++
    this.#lines = undefined
    this.#underWay = undefined
  }

  #begin(): Promise<readonly QueueStats[]> {
    const begun = this.#count().finally(() => {
      if (this.#underWay === begun) this.#underWay = undefined
    })
    return begun
  }

  async #count(): Promise<readonly QueueStats[]> {
    const changes = this.#changes
    const begunAt = performance.now()
    let lines: readonly QueueStats[] | undefined
    try {
      lines = await this.#store.stats()
      return lines
    } finally {
      // What was known is nothing to show beside a store that fails, nor what was counted before a change.
      if (lines !== undefined) this.#isLarge = countOf(lines) >= queueCountLimits.largeCount
      if (changes === this.#changes) {
        this.#lines = lines
        this.#at = performance.now()
      }
      this.#tookMs = performance.now() - begunAt
    }
  }
}

function countOf(lines: readonly QueueStats[]): number {
  return lines.reduce(
    (sum, { scheduled, ready, waiting, running, dead }) => sum + scheduled + ready + waiting + running + dead,
    0,
  )
}
