import type { AuditStore } from '../../../audit/index.ts'
import { createLoop, type Loop } from '../../../core/loop.ts'
import type { SeriesKeep } from '../../../fleet/index.ts'
import { membershipTimes, type WorkerStore } from '../../../fleet/workers/index.ts'
import {
  type AttemptStore,
  countSome,
  isReserved,
  type JobStore,
  type LogStore,
} from '../../../jobs/index.ts'
import type { Served, ServedStores } from '../call.ts'
import { queueCountsOf } from '../metrics/queue-counts.ts'
import type { Space, Spaces } from '../namespace-services.ts'
import { type OnLoopEvent, reportLoopEvents } from './namespace-work.ts'

/**
 * The server's upkeep, in every namespace in use: it deletes expired request keys, guards and rows of workers, and
 * reclaims jobs whose lease ended. If configured, it deletes old ended jobs and old audit entries. It is safe on any
 * server and any number of times: each step is one transaction, and several servers share the work. No promise depends
 * on it: `claim` checks leases itself.
 */
interface ServerUpkeep extends AsyncDisposable {
  readonly loops: readonly Loop[]
}

interface UpkeepParts {
  readonly served: Pick<Served, 'pruneKeys' | 'within'>
  readonly spaces: Spaces
  /** How long ended jobs are kept; undefined: for ever. */
  readonly retentionMs?: number | undefined
  /** How long audit entries are kept; undefined: for ever. */
  readonly auditKeepMs?: number | undefined
  /** How long counts of jobs are kept; undefined: nothing is counted. */
  readonly series?: SeriesKeep | undefined
  readonly onLoopEvent: OnLoopEvent
}

const batchSize = 1_000
const leasesIdleMs = 5_000
const idleMs = 30_000
const pruneIdleMs = 60_000

export function createServerUpkeep(parts: UpkeepParts): ServerUpkeep {
  const { served, spaces, retentionMs, auditKeepMs, series, onLoopEvent } = parts
  const loops = [
    createUpkeepLoop(
      'server.keys',
      idleMs,
      [served],
      async () => (await served.pruneKeys(batchSize)) === batchSize,
    ),
    createUpkeepLoop('server.leases', leasesIdleMs, spaces, async ({ stores }) => {
      const { ready, dead, cancelled } = await stores.jobs.reclaim(batchSize)
      return ready + dead + cancelled >= batchSize
    }),
    // Expired guards have no effect; deleting them only frees space.
    createUpkeepLoop('server.guards', idleMs, spaces, async ({ stores: { guards, ownGuards = guards } }) => {
      const counts = await Promise.all(
        Array.from(new Set([guards, ownGuards]), (one) => one.prune(batchSize)),
      )
      return counts.some((count) => count >= batchSize)
    }),
    // Counts attempts that failed or were lost in the groups of their errors, also where no worker runs.
    createUpkeepLoop('server.error-groups', idleMs, spaces, ({ stores, activity }) =>
      countSome(stores.attempts, activity),
    ),
    createPruneLoop('server.workers', membershipTimes.keepGoneMs, ({ workers }) => workers),
  ]
  if (retentionMs !== undefined)
    loops.push(
      createPruneLoop('server.retention', retentionMs, ({ jobs }) => jobs),
      createPruneLoop('server.logs', retentionMs, ({ logs }) => logs),
      createPruneLoop('server.errors', retentionMs, ({ attempts }) => attempts),
      createPruneLoop('server.waits', retentionMs, ({ dependencies }) => ({
        prune: ({ limit }) => dependencies.prune(limit),
      })),
    )
  if (auditKeepMs !== undefined)
    loops.push(createPruneLoop('server.audit', auditKeepMs, ({ audit }) => audit))
  if (series !== undefined)
    loops.push(createUpkeepLoop('server.series', idleMs, spaces, createSeriesUpkeep(series)))
  for (const loop of loops) reportLoopEvents(loop, onLoopEvent)

  /** A store cannot list its namespaces, so this lists those in use, and the default one. */
  function* namespaces(): Generator<string> {
    yield* new Set(['default', ...Array.from(spaces, ({ namespace }) => namespace)])
  }

  function createPruneLoop(name: string, keepMs: number, storeOf: (stores: ServedStores) => Prunable): Loop {
    const targets = { [Symbol.iterator]: namespaces }
    return createUpkeepLoop(name, Math.min(pruneIdleMs, keepMs), targets, async (namespace) => {
      const limits = { olderThanMs: keepMs, limit: batchSize }
      return (await storeOf(served.within(namespace)).prune(limits)) === batchSize
    })
  }

  return {
    loops,
    async [Symbol.asyncDispose]() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

type Prunable = Pick<JobStore | LogStore | AttemptStore | AuditStore | WorkerStore, 'prune'>

/** A loop over all targets. `work` does one batch in a target, and returns whether there may be more. */
function createUpkeepLoop<Target>(
  name: string,
  idleMs: number,
  targets: { [Symbol.iterator](): Iterator<Target> },
  work: (target: Target) => Promise<boolean>,
): Loop {
  return createLoop({
    ...{ name, idleMs },
    async step({ signal, progress }) {
      let isMore = false
      for (const target of targets) {
        if (signal.aborted) return 'idle'
        if (await work(target)) isMore = true
        progress()
      }
      return isMore ? 'more' : 'idle'
    },
  })
}

/**
 * Merges counts of jobs, and records how many jobs wait in each queue: a queue may fill while no job of it starts. It
 * records once that a queue became empty.
 */
function createSeriesUpkeep(keep: SeriesKeep): (space: Space) => Promise<boolean> {
  const full = new WeakMap<object, ReadonlySet<string>>()
  return async ({ stores, activity }) => {
    if (activity === undefined) return false
    const { lines } = await queueCountsOf(stores).recent()
    const before = full.get(activity) ?? new Set()
    const busy = lines.filter(({ queue, ready, running }) => !isReserved(queue) && ready + running > 0)
    for (const line of busy) activity.seen(line.queue, line)
    const now = new Set(busy.map(({ queue }) => queue))
    for (const queue of before) if (!now.has(queue)) activity.seen(queue, { ready: 0, running: 0 })
    full.set(activity, now)
    return stores.series.merge(keep)
  }
}
