import { within } from '../../../core/clock.ts'
import { isReserved, type QueueStats } from '../../../jobs/index.ts'
import type { Space } from '../namespace-services.ts'
import { type Family, gauge } from './metric-registry.ts'

export interface Counted {
  readonly lines: readonly QueueStats[]
  /** The wait ended before the count: the lines are those of the previous count, or empty. */
  readonly isCounting: boolean
}

/** How often the server counts. */
export const queueCountLimits = {
  keepMs: 1_000,
  /** The longest time for which a count is fresh. */
  maxKeepMs: 5_000,
  /** The share of time that counting may take. */
  share: 0.05,
  /** From this number of jobs on, callers of `now` get a shared count too. */
  largeCount: 100_000,
} as const

type CountingStore = Pick<Space['stores']['jobs'], 'stats'>

const known = new WeakMap<CountingStore, QueueCounts>()

/** Returns the counts of a store. They include the queues of the modules themselves. */
export function queueCountsOf({ jobs }: { readonly jobs: CountingStore }): QueueCounts {
  const counts = known.get(jobs) ?? new QueueCounts(jobs)
  known.set(jobs, counts)
  return counts
}

/**
 * The counts of all queues of a namespace, shared by all callers. A count takes longer the more jobs the store has, so
 * counting may take at most a twentieth of the time. A caller with a time limit gets the counts that are known by then:
 * old ones or none.
 */
export class QueueCounts {
  readonly #store: CountingStore
  #lines: readonly QueueStats[] | undefined
  /** Until this time, callers get the last count. */
  #freshUntil: number = Number.NEGATIVE_INFINITY
  #hasFailed = false
  /** Rises when running counts must not count as fresh. */
  #turn = 0
  /** A count that later callers may share. */
  #sharedCount: Promise<readonly QueueStats[]> | undefined

  constructor(store: CountingStore) {
    this.#store = store
  }

  /** The present counts; with very many jobs, the counts of a few seconds ago. */
  now(waitMs?: number): Promise<Counted> {
    // Does not share a running count, because it may have begun before the change that the caller wants to see. Decides
    // by the number of jobs, not by the last duration, so that a short load does not lead to old counts.
    const isLarge = this.#lines !== undefined && countOf(this.#lines) >= queueCountLimits.largeCount
    if (isLarge) return this.recent(waitMs)
    // A caller with a time limit shares a count. Otherwise each caller that gave up would start another count.
    return this.#within(waitMs, waitMs === undefined ? this.#count() : this.#share())
  }

  /** Counts that are at most a second old, or a few seconds if counting takes long. */
  async recent(waitMs?: number): Promise<Counted> {
    if (this.#lines !== undefined && performance.now() < this.#freshUntil)
      return { lines: this.#lines, isCounting: false }
    return this.#within(waitMs, this.#share())
  }

  /** After a change of a queue's settings: later callers get a count that begins after this call. */
  forget(): void {
    this.#turn++
    this.#freshUntil = Number.NEGATIVE_INFINITY
    this.#sharedCount = undefined
  }

  #within(waitMs: number | undefined, counting: Promise<readonly QueueStats[]>): Promise<Counted> {
    const counted = counting.then((lines): Counted => ({ lines, isCounting: false }))
    // After a failure, every caller waits for the store, so that it gets the error.
    if (waitMs === undefined || this.#hasFailed) return counted
    return within(waitMs, counted, () => ({ lines: this.#lines ?? [], isCounting: true }))
  }

  #share(): Promise<readonly QueueStats[]> {
    if (this.#sharedCount !== undefined) return this.#sharedCount
    const begun = this.#count().finally(() => {
      if (this.#sharedCount === begun) this.#sharedCount = undefined
    })
    this.#sharedCount = begun
    return begun
  }

  async #count(): Promise<readonly QueueStats[]> {
    const { keepMs, maxKeepMs, share } = queueCountLimits
    const turn = this.#turn
    const begunAt = performance.now()
    // If the store fails, the old counts are dropped.
    let lines: readonly QueueStats[] | undefined
    try {
      lines = await this.#store.stats()
      return lines
    } finally {
      const now = performance.now()
      this.#lines = lines
      this.#hasFailed = lines === undefined
      if (turn === this.#turn)
        this.#freshUntil = now + Math.min(maxKeepMs, Math.max(keepMs, (now - begunAt) / share))
    }
  }
}

function countOf(lines: readonly QueueStats[]): number {
  return lines.reduce((sum, line) => states.reduce((total, state) => total + line[state], sum), 0)
}

const states = ['scheduled', 'ready', 'waiting', 'running', 'dead'] as const

/** The parts of a namespace that the gauges need. */
export interface MeteredSpace {
  readonly namespace: string
  readonly stores: { readonly jobs: CountingStore }
}

/** The limits of a scrape. */
export const scrapeLimits = { timeoutMs: 2_000, namespaces: 100, queues: 500 } as const

interface Line extends QueueStats {
  readonly namespace: string
}

/**
 * The counts of the queues for a scrape. A scrape never exceeds its deadline and never fails: it leaves out late
 * answers, and `signalbox_scrape_incomplete` reports that.
 */
export async function queueFamilies(
  spaces: Iterable<MeteredSpace>,
): Promise<{ readonly families: readonly Family[]; readonly ok: boolean }> {
  const all = [...spaces]
  const some = all.slice(0, scrapeLimits.namespaces)
  const answers = await Promise.all(some.map(linesOf))
  const lines = answers.flatMap((known) => known ?? [])
  const ok = !answers.includes(undefined)
  const isComplete = ok && some.length === all.length && lines.length <= scrapeLimits.queues
  return { families: describe(capped(lines), isComplete), ok }
}

/** Returns undefined if the store failed or was late. */
async function linesOf({ namespace, stores }: MeteredSpace): Promise<readonly Line[] | undefined> {
  const { timeoutMs } = scrapeLimits
  const counted = queueCountsOf(stores).recent(timeoutMs)
  const late = { lines: [], isCounting: true }
  // After a failure, `recent` has no time limit of its own.
  const { lines, isCounting } = await within(timeoutMs, counted, () => late).catch(() => late)
  if (isCounting) return undefined
  return lines.filter(({ queue }) => !isReserved(queue)).map((line) => ({ namespace, ...line }))
}

/** Adds up the queues above the limit as one. */
function capped(lines: readonly Line[]): readonly Line[] {
  if (lines.length <= scrapeLimits.queues) return lines
  // Chooses queues by name, so that every scrape shows the same ones.
  const sorted = lines.toSorted((a, b) => compare(a.namespace, b.namespace) || compare(a.queue, b.queue))
  const rest = sorted.splice(scrapeLimits.queues)
  const sum = (state: (typeof states)[number]) => rest.reduce((total, line) => total + line[state], 0)
  const oldest = rest.flatMap(({ oldestReadyAt }) => oldestReadyAt ?? [])
  sorted.push({
    ...{ namespace: 'other', queue: 'other', paused: false, limits: null },
    scheduled: sum('scheduled'),
    ready: sum('ready'),
    waiting: sum('waiting'),
    running: sum('running'),
    dead: sum('dead'),
    approximate: rest.some(({ approximate }) => approximate),
    oldestReadyAt: oldest.length === 0 ? null : oldest.reduce((a, b) => Math.min(a, b)),
  })
  return sorted
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function describe(lines: readonly Line[], isComplete: boolean): readonly Family[] {
  const now = Date.now()
  const valuesOf = (read: (line: Line) => number) =>
    lines.map((line) => ({ labels: { namespace: line.namespace, queue: line.queue }, value: read(line) }))
  return [
    gauge(
      'signalbox_queue_jobs',
      'Jobs in the queue by state, in the namespaces in use here.',
      lines.flatMap((line) =>
        states.map((state) => ({
          labels: { namespace: line.namespace, queue: line.queue, state },
          value: line[state],
        })),
      ),
    ),
    gauge(
      'signalbox_queue_oldest_ready_seconds',
      "How long the oldest ready job has waited, by the store's instant and this host's clock; 0 when none waits.",
      valuesOf(({ oldestReadyAt }) =>
        oldestReadyAt === null ? 0 : Math.max(0, now - oldestReadyAt) / 1_000,
      ),
    ),
    gauge(
      'signalbox_queue_paused',
      '1 while the queue is paused.',
      valuesOf(({ paused }) => (paused ? 1 : 0)),
    ),
    gauge(
      'signalbox_scrape_incomplete',
      '1 when the store did not answer everything in time, or there were too many queues to show.',
      [{ labels: {}, value: isComplete ? 0 : 1 }],
    ),
  ]
}
