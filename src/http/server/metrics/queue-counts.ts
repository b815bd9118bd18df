import type { QueueStats } from '../../../jobs/index.ts'
import type { Space } from '../call.ts'

/**
 * The counts of all queues of a namespace, for all who ask. Counting takes the longer the more jobs there are, and may
 * take a twentieth of the time, no more. Whoever asks while a long count is under way gets the one before; and whoever
 * says how long they would wait gets what is known by then, be it old or nothing yet.
 */
export interface QueueCounts {
  /** As they are now; where there are very many jobs, as they were a few seconds ago. */
  now(waitMs?: number): Promise<Counted>
  /** At most a second old; where counting takes long, a few. */
  recent(waitMs?: number): Promise<Counted>
  /** Somebody changed a queue: from now on it is shown so, whenever its jobs were counted. */
  changed(change: QueueChange): void
}

export interface Counted {
  readonly lines: readonly QueueStats[]
  /** The wait was over before the count: these are of the one before, or there are none yet. */
  readonly isCounting: boolean
}

/** What was set of a queue. */
export type QueueChange = Pick<QueueStats, 'queue'> & Partial<Pick<QueueStats, 'paused' | 'limits'>>

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

type CountingStore = Pick<Space['stores']['jobs'], 'stats'>

const known = new WeakMap<CountingStore, QueueCounts>()

/** The one of that store. Its counts are with those of the modules' own queues. */
export function queueCountsOf({ jobs }: { readonly jobs: CountingStore }): QueueCounts {
  let counts = known.get(jobs)
  if (counts === undefined) {
    counts = new SharedCounts(jobs)
    known.set(jobs, counts)
  }
  return counts
}

class SharedCounts implements QueueCounts {
  readonly #store: CountingStore
  #at: number = Number.NEGATIVE_INFINITY
  #tookMs = 0
  #isLarge = false
  #hasFailed = false
  #lines: readonly QueueStats[] | undefined
  #underWay: Promise<readonly QueueStats[]> | undefined
  /** Those that the counts under way, so many, may have missed. */
  #changes: QueueChange[] = []
  #underWayCount = 0

  constructor(store: CountingStore) {
    this.#store = store
  }

  async now(waitMs?: number): Promise<Counted> {
    // By what there is and not by what it took, so that a machine that is busy for a moment shows nothing old. Not what is
    // under way either: it may have begun before the change that somebody wants to see.
    const isShared = this.#isLarge || (waitMs !== undefined && this.#isSlow())
    return isShared ? this.recent(waitMs) : this.#within(waitMs, this.#count())
  }

  async recent(waitMs?: number): Promise<Counted> {
    const { keepMs, mostMs, share, longMs } = queueCountLimits
    const lines = this.#lines
    const ageMs = performance.now() - this.#at
    const freshMs = Math.min(mostMs, Math.max(keepMs, this.#tookMs / share))
    if (lines !== undefined && ageMs < freshMs) return { lines, isCounting: false }
    this.#underWay ??= this.#begin()
    if (lines === undefined || this.#tookMs <= longMs || ageMs > 2 * mostMs)
      return this.#within(waitMs, this.#underWay)
    // Whoever comes when it has failed is told.
    this.#underWay.catch(() => undefined)
    return { lines, isCounting: false }
  }

  changed(change: QueueChange): void {
    if (this.#underWayCount > 0) this.#changes.push(change)
    if (this.#lines !== undefined) this.#lines = withChange(this.#lines, change)
  }

  /** Or may be: then who would rather not wait shares a count, lest each that was not waited for be followed by another. */
  #isSlow(): boolean {
    if (this.#lines === undefined) return !this.#hasFailed
    return this.#tookMs > queueCountLimits.longMs
  }

  async #within(waitMs: number | undefined, counting: Promise<readonly QueueStats[]>): Promise<Counted> {
    const counted = counting.then((lines): Counted => ({ lines, isCounting: false }))
    // Beside a store that fails everybody waits, and is told.
    if (waitMs === undefined || this.#hasFailed) return counted
    const { promise: late, resolve } = Promise.withResolvers<Counted>()
    const timer = setTimeout(() => resolve({ lines: this.#lines ?? [], isCounting: true }), waitMs)
    try {
      return await Promise.race([counted, late])
    } finally {
      clearTimeout(timer)
    }
  }

  #begin(): Promise<readonly QueueStats[]> {
    const begun = this.#count().finally(() => {
      if (this.#underWay === begun) this.#underWay = undefined
    })
    return begun
  }

  async #count(): Promise<readonly QueueStats[]> {
    const begunAt = performance.now()
    const changesBefore = this.#changes.length
    this.#underWayCount++
    let lines: readonly QueueStats[] | undefined
    try {
      const counted = await this.#store.stats()
      lines = this.#changes.slice(changesBefore).reduce(withChange, counted)
      return lines
    } finally {
      if (lines !== undefined) this.#isLarge = countOf(lines) >= queueCountLimits.largeCount
      this.#hasFailed = lines === undefined
      // What was known is nothing to show beside a store that fails.
      this.#lines = lines
      this.#at = performance.now()
      this.#tookMs = this.#at - begunAt
      if (--this.#underWayCount === 0) this.#changes = []
    }
  }
}

function countOf(lines: readonly QueueStats[]): number {
  return lines.reduce((sum, line) => sum + jobsOf(line), 0)
}

function jobsOf({ scheduled, ready, waiting, running, dead }: QueueStats): number {
  return scheduled + ready + waiting + running + dead
}

const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0, oldestReadyAt: null }

/** The same lines, as a store would give them after the change: a queue without jobs is there while something is set. */
function withChange(lines: readonly QueueStats[], { queue, ...set }: QueueChange): readonly QueueStats[] {
  const before = lines.find((line) => line.queue === queue)
  const line: QueueStats = { ...(before ?? { queue, paused: false, limits: null, ...none }), ...set }
  const others = lines.filter((other) => other !== before)
  if (jobsOf(line) === 0 && !line.paused && line.limits === null) return others
  return [...others, line].sort((a, b) => (a.queue < b.queue ? -1 : 1))
}
