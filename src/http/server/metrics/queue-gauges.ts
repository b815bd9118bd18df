import { type Clock, systemClock } from '../../../core/clock.ts'
import type { Jobs, QueueStats } from '../../../jobs/index.ts'
import type { Space } from '../call.ts'
import type { Family, Value } from './metric-series.ts'

/**
 * How full the queues are, asked of the store when somebody scrapes. A scrape never waits longer than its deadline and
 * never fails: what the store did not tell in time is left out, and `signalbox_scrape_incomplete` says so. Scrapers that
 * come together share one answer.
 */
export interface QueueGauges {
  families(
    spaces: Iterable<MeteredSpace>,
  ): Promise<{ readonly families: readonly Family[]; readonly ok: boolean }>
}

/** What is asked of a namespace. */
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
      help: '1 while nothing of the queue is handed out.',
      type: 'gauge',
      values: lines.map((line) => ({ labels: labelled(line), value: line.paused ? 1 : 0 })),
    },
    {
      name: 'signalbox_scrape_incomplete',
      help: '1 when the store did not tell everything in time, or there was too much to show.',
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
