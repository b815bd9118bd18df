import { within } from '../../../core/clock.ts'
import { isReserved, type QueueStats } from '../../../jobs/index.ts'
import type { Space } from '../namespace-services.ts'
import { type Family, gauge } from './metric-registry.ts'

export interface Counted {
  readonly lines: readonly QueueStats[]
  /** The wait was over before the count: these are of the one before, or there are none yet. */
  readonly isCounting: boolean
}

/** How often the store is asked. */
export const queueCountLimits: {
  readonly keepMs: number
  /** The longest that a count is shown without another. */
  readonly mostMs: number
  /** The share of time that counting may take. */
  readonly share: number
  /** From this many jobs on, a caller that asks for now also gets a shared count. */
  readonly largeCount: number
} = { keepMs: 1_000, mostMs: 5_000, share: 0.05, largeCount: 100_000 }

type CountingStore = Pick<Space['stores']['jobs'], 'stats'>

const known = new WeakMap<CountingStore, QueueCounts>()

/** The one of that store. Its counts are with those of the modules' own queues. */
export function queueCountsOf({ jobs }: { readonly jobs: CountingStore }): QueueCounts {
  const counts = known.get(jobs) ?? new QueueCounts(jobs)
  known.set(jobs, counts)
  return counts
}

/**
 * The counts of all queues of a namespace, shared by all callers. A count takes longer the more jobs there are, and
 * counting may take a twentieth of the time, no more. A caller with a time limit gets the counts that are known by then,
 * old ones or none.
 */
export class QueueCounts {
  readonly #store: CountingStore
  #lines: readonly QueueStats[] | undefined
  /** Until when they are shown without another count. */
  #freshUntil: number = Number.NEGATIVE_INFINITY
  #hasFailed = false
  /** Rises when counts that have begun must not be shown as fresh. */
  #turn = 0
  /** A count that later callers may share. */
  #underWay: Promise<readonly QueueStats[]> | undefined

  constructor(store: CountingStore) {
    this.#store = store
  }

  /** As they are now; where there are very many jobs, as they were a few seconds ago. */
  now(waitMs?: number): Promise<Counted> {
    // A running count does not serve: it may have begun before the change that the caller wants to see. Decide by the number
    // of jobs, not by the last duration, so that a short load does not lead to old counts.
    const isLarge = this.#lines !== undefined && countOf(this.#lines) >= queueCountLimits.largeCount
    if (isLarge) return this.recent(waitMs)
    // A caller that would not wait shares a count, lest each count that was not waited for be followed by another.
    return this.#within(waitMs, waitMs === undefined ? this.#count() : this.#share())
  }

  /** At most a second old; where counting takes long, a few. */
  async recent(waitMs?: number): Promise<Counted> {
    if (this.#lines !== undefined && performance.now() < this.#freshUntil)
      return { lines: this.#lines, isCounting: false }
    return this.#within(waitMs, this.#share())
  }

  /** A setting of a queue was changed: later callers get a count that begins after this. */
  forget(): void {
    this.#turn++
    this.#freshUntil = Number.NEGATIVE_INFINITY
    this.#underWay = undefined
  }

  #within(waitMs: number | undefined, counting: Promise<readonly QueueStats[]>): Promise<Counted> {
    const counted = counting.then((lines): Counted => ({ lines, isCounting: false }))
    // Every caller waits for a store that failed, and gets its error.
    if (waitMs === undefined || this.#hasFailed) return counted
    return within(waitMs, counted, () => ({ lines: this.#lines ?? [], isCounting: true }))
  }

  #share(): Promise<readonly QueueStats[]> {
    if (this.#underWay !== undefined) return this.#underWay
    const begun = this.#count().finally(() => {
      if (this.#underWay === begun) this.#underWay = undefined
    })
    this.#underWay = begun
    return begun
  }

  async #count(): Promise<readonly QueueStats[]> {
    const { keepMs, mostMs, share } = queueCountLimits
    const turn = this.#turn
    const begunAt = performance.now()
    // What was known is nothing to show beside a store that fails.
    let lines: readonly QueueStats[] | undefined
    try {
      lines = await this.#store.stats()
      return lines
    } finally {
      const now = performance.now()
      this.#lines = lines
      this.#hasFailed = lines === undefined
      if (turn === this.#turn)
        this.#freshUntil = now + Math.min(mostMs, Math.max(keepMs, (now - begunAt) / share))
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

/** How much a scrape asks for. */
export const scrapeLimits: {
  readonly timeoutMs: number
  readonly namespaces: number
  readonly queues: number
} = { timeoutMs: 2_000, namespaces: 100, queues: 500 }

interface Line extends QueueStats {
  readonly namespace: string
}

/**
 * The counts of the queues for a scrape. A scrape never waits longer than its deadline and never fails: it leaves out
 * late answers, and `signalbox_scrape_incomplete` reports that.
 */
export async function queueFamilies(
  spaces: Iterable<MeteredSpace>,
): Promise<{ readonly families: readonly Family[]; readonly ok: boolean }> {
  const all = [...spaces]
  const some = all.slice(0, scrapeLimits.namespaces)
  const answers = await Promise.all(some.map(linesOf))
  const lines = answers.flatMap((known) => known ?? [])
  const ok = !answers.includes(undefined)
  const isWhole = ok && some.length === all.length && lines.length <= scrapeLimits.queues
  return { families: describe(capped(lines), isWhole), ok }
}

/** Undefined when the store failed, or was late. */
async function linesOf({ namespace, stores }: MeteredSpace): Promise<readonly Line[] | undefined> {
  const { timeoutMs } = scrapeLimits
  const counted = queueCountsOf(stores).recent(timeoutMs)
  const late = { lines: [], isCounting: true }
  // After a failure the counts themselves have no time limit.
  const { lines, isCounting } = await within(timeoutMs, counted, () => late).catch(() => late)
  if (isCounting) return undefined
  return lines.filter(({ queue }) => !isReserved(queue)).map((line) => ({ namespace, ...line }))
}

/** With the queues above the limit added up as one. */
function capped(lines: readonly Line[]): readonly Line[] {
  if (lines.length <= scrapeLimits.queues) return lines
  // By name, so that from one scrape to the next the same ones are shown.
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

function describe(lines: readonly Line[], isWhole: boolean): readonly Family[] {
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
      "How long the oldest ready job waits; 0 when none does. The store's instant, this host's clock.",
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
      [{ labels: {}, value: isWhole ? 0 : 1 }],
    ),
  ]
}
