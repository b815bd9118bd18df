import { type Clock, systemClock } from '../../../core/clock.ts'
import type { Jobs, QueueStats } from '../../../jobs/index.ts'
import type { Space } from '../call.ts'
import type { Family, Value } from './metric-registry.ts'

/**
 * The counts of all queues of a namespace, shared by all callers. A count takes longer the more jobs there are, and
 * counting may take a twentieth of the time, no more. A caller that asks during a long count gets the one before. A
 * caller with a time limit gets the counts that are known by then, old ones or none.
 */
export interface QueueCounts {
  /** As they are now; where there are very many jobs, as they were a few seconds ago. */
  now(waitMs?: number): Promise<Counted>
  /** At most a second old; where counting takes long, a few. */
  recent(waitMs?: number): Promise<Counted>
  /** A queue was changed: from now on its new settings are shown, whenever its jobs were counted. */
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
  /** The share of time that counting may take. */
  readonly share: number
  /** From this duration on, only the first caller waits for a count. */
  readonly longMs: number
  /** From this many jobs on, a caller that asks for now also gets a shared count. */
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
  /** The changes that the running counts may have missed. */
  #changes: QueueChange[] = []
  #underWayCount = 0

  constructor(store: CountingStore) {
    this.#store = store
  }

  async now(waitMs?: number): Promise<Counted> {
    // Decide by the number of jobs, not by the last duration, so that a short load does not lead to old counts. A running
    // count does not serve either: it may have begun before the change that the caller wants to see.
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
    // Callers that come after the failure get the error.
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
    // Every caller waits for a store that failed, and gets its error.
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

const noJobs = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0 }
const none = { ...noJobs, approximate: false, oldestReadyAt: null }

/** The same lines, as a store would give them after the change: a queue without jobs is there while something is set. */
function withChange(lines: readonly QueueStats[], { queue, ...set }: QueueChange): readonly QueueStats[] {
  const before = lines.find((line) => line.queue === queue)
  const line: QueueStats = { ...(before ?? { queue, paused: false, limits: null, ...none }), ...set }
  const others = lines.filter((other) => other !== before)
  if (jobsOf(line) === 0 && !line.paused && line.limits === null) return others
  return [...others, line].sort((a, b) => (a.queue < b.queue ? -1 : 1))
}

/**
 * The counts of the queues for a scrape. A scrape never waits longer than its deadline and never fails: it leaves out
 * late answers, and `signalbox_scrape_incomplete` reports that. Scrapers that
 * come together share one answer.
 */
export interface QueueGauges {
  families(
    spaces: Iterable<MeteredSpace>,
  ): Promise<{ readonly families: readonly Family[]; readonly ok: boolean }>
}

/** The parts of a namespace that the gauges need. */
export type MeteredSpace = Pick<Space, 'namespace'> & { readonly jobs: Pick<Jobs, 'stats'> }

/** How much a scrape asks for. */
export const scrapeLimits: {
  readonly timeoutMs: number
  readonly keepMs: number
  readonly replaceMs: number
  readonly namespaces: number
  readonly queues: number
} = { timeoutMs: 2_000, keepMs: 1_000, replaceMs: 30_000, namespaces: 100, queues: 500 }

const states = ['scheduled', 'ready', 'waiting', 'running', 'dead'] as const

interface Asked {
  readonly at: number
  readonly stats: Promise<readonly QueueStats[] | undefined>
  isUnderWay: boolean
}
interface Line extends QueueStats {
  readonly namespace: string
}

export function createQueueGauges(clock: Clock = systemClock): QueueGauges {
  const asked = new Map<string, Asked>()

  /** Undefined when the store failed. Never rejects. */
  function ask({ namespace, jobs }: MeteredSpace): Promise<readonly QueueStats[] | undefined> {
    const now = clock.now()
    const last = asked.get(namespace)
    if (last !== undefined) {
      const isFresh = now - last.at <= (last.isUnderWay ? scrapeLimits.replaceMs : scrapeLimits.keepMs)
      if (isFresh) return last.stats
    }
    const stats = (async () => jobs.stats())().catch(() => undefined)
    const mine: Asked = { at: now, stats, isUnderWay: true }
    asked.set(namespace, mine)
    void stats.then(() => {
      mine.isUnderWay = false
    })
    return stats
  }

  function forget(now: number): void {
    for (const [namespace, { at, isUnderWay }] of asked) {
      if (!isUnderWay && now - at > scrapeLimits.keepMs) asked.delete(namespace)
    }
  }

  return {
    async families(spaces) {
      const all = [...spaces]
      const some = all.slice(0, scrapeLimits.namespaces)
      forget(clock.now())
      const lines: Line[] = []
      let answeredCount = 0
      const answers = some.map(async (space) => {
        const stats = await ask(space)
        if (stats === undefined) return
        answeredCount++
        for (const one of stats) lines.push({ namespace: space.namespace, ...one })
      })
      await within(scrapeLimits.timeoutMs, Promise.all(answers), clock)
      const kept = capped(lines)
      const isWhole = answeredCount === some.length && some.length === all.length && kept === undefined
      return { families: describe(kept ?? lines, isWhole), ok: answeredCount === some.length }
    },
  }
}

/** With the queues above the limit added up as one, or undefined when there are not so many. */
function capped(lines: readonly Line[]): readonly Line[] | undefined {
  if (lines.length <= scrapeLimits.queues) return undefined
  // By name, so that from one scrape to the next the same ones are shown.
  const sorted = lines.toSorted((a, b) => compare(a.namespace, b.namespace) || compare(a.queue, b.queue))
  const rest = sorted.splice(scrapeLimits.queues)
  const sum = (state: (typeof states)[number]) => rest.reduce((total, line) => total + line[state], 0)
  const oldest = rest.flatMap(({ oldestReadyAt }) => oldestReadyAt ?? [])
  sorted.push({
    namespace: 'other',
    queue: 'other',
    paused: false,
    limits: null,
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
  const labelled = <Labels extends object>(line: Line, more?: Labels) => ({
    namespace: line.namespace,
    queue: line.queue,
    ...more,
  })
  return [
    {
      name: 'signalbox_queue_jobs',
      help: 'Jobs in the queue by state, in the namespaces in use here.',
      type: 'gauge',
      values: lines.flatMap((line) =>
        states.map((state): Value => ({ labels: labelled(line, { state }), value: line[state] })),
      ),
    },
    {
      name: 'signalbox_queue_oldest_ready_seconds',
      help: "How long the oldest ready job waits; 0 when none does. The store's instant, this host's clock.",
      type: 'gauge',
      values: lines.map((line) => ({
        labels: labelled(line),
        value: line.oldestReadyAt === null ? 0 : Math.max(0, now - line.oldestReadyAt) / 1_000,
      })),
    },
    {
      name: 'signalbox_queue_paused',
      help: '1 while the queue is paused.',
      type: 'gauge',
      values: lines.map((line) => ({ labels: labelled(line), value: line.paused ? 1 : 0 })),
    },
    {
      name: 'signalbox_scrape_incomplete',
      help: '1 when the store did not answer everything in time, or there were too many queues to show.',
      type: 'gauge',
      values: [{ labels: {}, value: isWhole ? 0 : 1 }],
    },
  ]
}

/** Waits for it, but no longer than that. */
async function within(timeoutMs: number, work: Promise<unknown>, clock: Clock): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = clock.setTimeout(resolve, timeoutMs)
    void work.then(() => {
      clock.clearTimeout(timer)
      resolve()
    })
  })
}
