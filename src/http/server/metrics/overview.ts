import { version } from '../../../core/version.ts'
import { readSeries, type Series, type SeriesPoint, type SeriesStore } from '../../../fleet/index.ts'
import { minuteMs } from '../../../fleet/rules/index.ts'
import type { WorkerRecord, WorkerStore } from '../../../fleet/workers/index.ts'
import { isReserved, type QueueStats } from '../../../jobs/index.ts'
import type { Monitor, MonitorProblems } from '../../../monitor/index.ts'
import type { Me, Overview, OverviewProblem, OverviewQuery, Readiness } from '../../contract/index.ts'
import type { Principal, Served } from '../call.ts'
import type { Space } from '../namespace-services.ts'
import type { ClockJump, Health } from './health.ts'
import { createKnownAnswers, type KnownAnswers } from './known-answer.ts'
import { queueCountsOf } from './queue-counts.ts'

/**
 * The overview page of the dashboard. For all readers together, the server reads the counts of queues at most once a
 * second, and the problems of the monitor, the counts of the last hour and the workers at most every two seconds.
 */
export interface Overviews {
  me(principal: Principal): Me
  of(space: Space, query: OverviewQuery): Promise<Overview>
}

interface OverviewParts {
  readonly served: Pick<Served, 'name' | 'warnings'>
  readonly spaces: Iterable<{ readonly namespace: string }>
  readonly health: Pick<Health, 'ready'>
  /** The last jump of the store's clock, if it is recent. */
  clockJump(): ClockJump | undefined
}

/** The limits from which the overview reports a problem, and how many it lists. */
const overviewLimits = { behindMs: 60_000, namespaces: 200, problems: 100 }

/** The queue in which tasks for nodes wait; see src/dispatch/tasks/task-document.ts. */
const dispatchQueue = 'signalbox.dispatch'

export function createOverviews(parts: OverviewParts): Overviews {
  return {
    me({ id, name = null, scope, namespace, everyNamespace }) {
      const known = everyNamespace ? Array.from(parts.spaces, (space) => space.namespace) : []
      const namespaces = [...new Set([namespace, ...known])].slice(0, overviewLimits.namespaces)
      const { name: engine, warnings } = parts.served
      return {
        ...{ id, name, scope, namespace, everyNamespace, namespaces: namespaces.sort() },
        server: { version, engine, warnings },
      }
    },

    async of(space, { since = 0, waitMs }) {
      const [readiness, { lines, isCounting }, monitor, series] = await Promise.all([
        parts.health.ready(),
        queueCountsOf(space.stores).recent(waitMs),
        knownProblemsOf(space.monitor, waitMs),
        lastHourOf(space.stores.series),
      ])
      const at = Date.now()
      const queues = lines.filter(({ queue }) => !isReserved(queue)).sort(byQueue)
      const behind = queues.filter((line) => isBehind(line, at))
      const ofWorkers = await findWorkerProblems(space.stores.workers, behind, {
        ...{ behindMs: overviewLimits.behindMs, waitMs },
      })
      const problems = [
        ...checkProblems(readiness),
        ...clockProblems(parts.clockJump()),
        ...nodeProblems(space, lines),
        ...ofWorkers.problems,
        ...queueProblems(queues, at, ofWorkers.queues),
        ...monitorProblems(monitor),
      ]
      return {
        at,
        readiness,
        problems: problems.slice(0, overviewLimits.problems),
        queues,
        ...(isCounting ? { counting: true } : {}),
        history: {
          stepMs: series.stepMs,
          since: series.from,
          samples: (series.items[0]?.points ?? []).filter((point) => point.at >= since).map(sampleOf),
        },
      }
    },
  }
}

function byQueue(a: QueueStats, b: QueueStats): number {
  return a.queue < b.queue ? -1 : 1
}

function sampleOf({ at, added, completed, failed, dead, wait, run, ready, running }: SeriesPoint) {
  return {
    ...{ at, added, completed, retried: failed, dead, ready, running },
    ...{ waitP50Ms: wait?.p50Ms ?? null, waitP99Ms: wait?.p99Ms ?? null },
    ...{ runP50Ms: run?.p50Ms ?? null, runP99Ms: run?.p99Ms ?? null },
  }
}

function problem(
  kind: OverviewProblem['kind'],
  subject: string,
  count: number,
  more: Partial<Pick<OverviewProblem, 'since' | 'detail'>> = {},
): OverviewProblem {
  return { kind, subject, count, since: null, detail: null, ...more }
}

function checkProblems({ checks }: Readiness): readonly OverviewProblem[] {
  return checks.flatMap(({ name, ok, detail = null }) =>
    ok ? [] : [problem('check_failed', name, 1, { detail })],
  )
}

/** The store's clock was set: leases may have ended early, or may end late. */
function clockProblems(jump: ClockJump | undefined): readonly OverviewProblem[] {
  if (jump === undefined) return []
  const seconds = Math.round(jump.byMs / 1_000)
  return [problem('clock_jump', `${seconds > 0 ? '+' : '−'}${Math.abs(seconds)} s`, 1, { since: jump.at })]
}

/** Tasks wait, but no node is connected. */
function nodeProblems(space: Space, lines: readonly QueueStats[]): readonly OverviewProblem[] {
  const line = lines.find(({ queue }) => queue === dispatchQueue)
  const count = (line?.ready ?? 0) + (line?.running ?? 0)
  if (count === 0 || space.dispatch.nodes().some(({ status }) => status !== 'gone')) return []
  return [problem('no_nodes', 'tasks', count, { since: line?.oldestReadyAt ?? null })]
}

function isBehind({ paused, oldestReadyAt }: QueueStats, now: number): boolean {
  return !paused && oldestReadyAt !== null && now - oldestReadyAt > overviewLimits.behindMs
}

/** `reported`: queues that another problem already reports. */
function queueProblems(
  queues: readonly QueueStats[],
  now: number,
  reported: ReadonlySet<string>,
): readonly OverviewProblem[] {
  const dead = queues.filter((line) => line.dead > 0)
  const paused = queues.filter((line) => line.paused && line.ready > 0)
  const behind = queues.filter((line) => isBehind(line, now) && !reported.has(line.queue))
  return [
    ...dead.map(({ queue, dead }) => problem('dead_jobs', queue, dead)),
    ...paused.map(({ queue, ready, oldestReadyAt }) =>
      problem('queue_paused', queue, ready, { since: oldestReadyAt }),
    ),
    ...behind.map(({ queue, ready, oldestReadyAt }) =>
      problem('queue_behind', queue, ready, { since: oldestReadyAt }),
    ),
  ]
}

/** Groups problems by the subscription's name. */
function monitorProblems({ dead, unreadable }: MonitorProblems): readonly OverviewProblem[] {
  const deadByName = Map.groupBy(dead, ({ subscription }) => subscription)
  const unreadableByName = Map.groupBy(unreadable, ({ subscription }) => subscription)
  return [
    ...Array.from(unreadableByName, ([name, group]) =>
      problem('channel_sealed', name, group.length, { detail: group[0]!.message }),
    ),
    ...Array.from(deadByName, ([name, group]) => {
      const count = group.reduce((total, one) => total + one.count, 0)
      const since = Math.min(...group.map((one) => one.since))
      return problem('dead_notifications', name, count, { since })
    }),
  ]
}

/** The known problems of a monitor that need an operator. */
export const knownProblemsOf: KnownAnswers<Pick<Monitor, 'problems'>, MonitorProblems> = createKnownAnswers(
  (monitor) => monitor.problems(),
  { dead: [], unreadable: [], plain: 0 },
)

const noSeries: Series = { now: 0, from: 0, to: 0, stepMs: minuteMs, items: [], isFolded: false }

/** Counts of the last hour, of all processes on the store. */
const lastHourOf: KnownAnswers<SeriesStore, Series> = createKnownAnswers(
  (store) => readSeries(store, { step: minuteMs }),
  noSeries,
)

/**
 * Queues that no worker serves, and kinds that no worker knows. A worker may claim jobs without a row of its own: an
 * older release, or a box without membership. So the overview reports a problem only at a standstill: no job of the
 * queue runs, and the oldest ready job has been the same for some time.
 */
interface WorkerProblems {
  readonly problems: readonly OverviewProblem[]
  /** The queues of these problems, so that the overview does not report them as behind too. */
  readonly queues: ReadonlySet<string>
}

/** How long a standstill must last, in addition to the time after which a queue is behind. */
const stillMs = 10_000
const kindLimit = 200
const pageSize = 500
const maxWorkers = 5_000

/** The oldest ready job, and when this process first saw it as the oldest. */
interface Standstill {
  readonly oldestAt: number
  readonly seenAt: number
}
const standstills = new WeakMap<WorkerStore, Map<string, Standstill>>()

interface WorkerProblemsOptions {
  readonly behindMs: number
  readonly waitMs?: number | undefined
  /** The monotonic clock. @default the process's own */
  readonly nowMs?: number
}

/** `behind`: the queues whose oldest ready job has waited longer than `behindMs`. */
export async function findWorkerProblems(
  store: WorkerStore,
  behind: readonly QueueStats[],
  { behindMs, waitMs, nowMs = performance.now() }: WorkerProblemsOptions,
): Promise<WorkerProblems> {
  const before = standstills.get(store)
  const still = new Map<string, Standstill>()
  standstills.set(store, still)
  const problems: OverviewProblem[] = []
  const queues = new Set<string>()
  if (behind.length === 0) return { problems, queues }

  const isStill = (key: string, oldestAt: number): boolean => {
    const seen = before?.get(key)
    const standstill = seen?.oldestAt === oldestAt ? seen : { oldestAt, seenAt: nowMs }
    still.set(key, standstill)
    return nowMs - standstill.seenAt >= stillMs
  }

  const known = await liveWorkersOf(store, waitMs)
  if (known === undefined) return { problems, queues }
  for (const { queue, ready, running, oldestReadyAt } of behind) {
    const listed = known.filter((worker) => worker.queues.includes(queue))
    const takers = listed.filter(({ mode }) => mode === 'running')
    if (takers.length > 0) {
      problems.push(...(await findUnknownKinds(queue, takers)))
      continue
    }
    if (running > 0 || !isStill(`queue ${queue}`, oldestReadyAt!)) continue
    queues.add(queue)
    const detail =
      listed.length === 0
        ? 'No live worker takes this queue. Start one.'
        : `No worker takes this queue: all its ${listed.length} workers are quiet or stopping. Resume one, or start one.`
    problems.push(problem('no_worker', queue, ready, { since: oldestReadyAt, detail }))
  }
  return { problems, queues }

  async function findUnknownKinds(
    queue: string,
    takers: readonly WorkerRecord[],
  ): Promise<readonly OverviewProblem[]> {
    if (takers.some(({ kinds }) => kinds === null)) return []
    const kinds = new Set(takers.flatMap((worker) => worker.kinds!))
    const { kinds: ready, now } = await store.readyKinds(queue, kindLimit)
    return ready
      .filter(({ kind, oldestAt }) => !kinds.has(kind) && now - oldestAt > behindMs)
      .filter(({ kind, oldestAt }) => isStill(`kind ${JSON.stringify([queue, kind])}`, oldestAt))
      .map(({ kind, count, oldestAt: since }) => {
        const detail = `No live worker of the queue "${queue}" has a handler for this kind. Start one that has, or cancel the jobs.`
        return problem('unknown_kind', kind, count, { since, detail })
      })
  }
}

/** Undefined: not known yet. */
const liveWorkersOf: KnownAnswers<WorkerStore, readonly WorkerRecord[] | undefined> = createKnownAnswers(
  async (store: WorkerStore) => {
    const live: WorkerRecord[] = []
    let after: string | undefined
    do {
      const { workers, now } = await store.list({ limit: pageSize, after })
      live.push(...workers.filter(({ leaseEndsAt }) => leaseEndsAt > now))
      after = workers.length < pageSize ? undefined : workers.at(-1)!.id
    } while (after !== undefined && live.length < maxWorkers)
    return live
  },
  undefined,
)
