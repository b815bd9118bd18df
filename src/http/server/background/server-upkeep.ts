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
import { type OnTrouble, tellTrouble } from './namespace-work.ts'

/**
 * The server's upkeep: it deletes expired request keys, guards and rows of workers, takes back jobs whose lease ran out and, if so
 * configured, deletes old ended jobs and old audit entries, in every namespace in use. It is safe on any server and any
 * number of times: each piece is one transaction, and several servers share the work. No promise depends on it: `claim`
 * checks leases itself.
 */
export interface ServerUpkeep extends AsyncDisposable {
  readonly loops: readonly Loop[]
}

export interface UpkeepParts {
  readonly served: Pick<Served, 'pruneKeys' | 'within'>
  readonly spaces: Spaces
  /** How long jobs that ended are kept; undefined: for ever. */
  readonly retentionMs?: number | undefined
  /** How long it is kept what operators did; undefined: for ever. */
  readonly auditKeepMs?: number | undefined
  /** How long counts of jobs are kept; undefined: nothing is counted. */
  readonly series?: SeriesKeep | undefined
  readonly onTrouble: OnTrouble
}

const biteSize = 1_000
const leasesIdleMs = 5_000
const idleMs = 30_000
const forgettingIdleMs = 60_000

export function createServerUpkeep(parts: UpkeepParts): ServerUpkeep {
  const { served, spaces, retentionMs, auditKeepMs, series, onTrouble } = parts
  const loops = [
    createRounds(
      'server.keys',
      idleMs,
      [served],
      async () => (await served.pruneKeys(biteSize)) === biteSize,
    ),
    createRounds('server.leases', leasesIdleMs, spaces, async ({ stores }) => {
      const { ready, dead, cancelled } = await stores.jobs.reclaim(biteSize)
      return ready + dead + cancelled >= biteSize
    }),
    // Expired guards have no effect; deleting them only frees space.
    createRounds('server.guards', idleMs, spaces, async ({ stores: { guards, ownGuards = guards } }) => {
      const counts = await Promise.all(Array.from(new Set([guards, ownGuards]), (one) => one.prune(biteSize)))
      return counts.some((count) => count >= biteSize)
    }),
    // Counts attempts that failed or were lost in the groups of their errors, also where no worker runs.
    createRounds('server.error-groups', idleMs, spaces, ({ stores, activity }) =>
      countSome(stores.attempts, activity),
    ),
    createForgetting('server.workers', membershipTimes.keepGoneMs, ({ workers }) => workers),
  ]
  if (retentionMs !== undefined)
    loops.push(
      createForgetting('server.retention', retentionMs, ({ jobs }) => jobs),
      createForgetting('server.logs', retentionMs, ({ logs }) => logs),
      createForgetting('server.errors', retentionMs, ({ attempts }) => attempts),
      createForgetting('server.waits', retentionMs, ({ dependencies }) => ({
        prune: ({ limit }) => dependencies.prune(limit),
      })),
    )
  if (auditKeepMs !== undefined)
    loops.push(createForgetting('server.audit', auditKeepMs, ({ audit }) => audit))
  if (series !== undefined)
    loops.push(createRounds('server.series', idleMs, spaces, createSeriesUpkeep(series)))
  for (const loop of loops) tellTrouble(loop, onTrouble)

  /** A store cannot list its namespaces, so it is those in use, and the one that is used when none is named. */
  function* namespaces(): Generator<string> {
    yield* new Set(['default', ...Array.from(spaces, ({ namespace }) => namespace)])
  }

  function createForgetting(name: string, keepMs: number, storeOf: (stores: ServedStores) => Prunable): Loop {
    const places = { [Symbol.iterator]: namespaces }
    return createRounds(name, Math.min(forgettingIdleMs, keepMs), places, async (namespace) => {
      const limits = { olderThanMs: keepMs, limit: biteSize }
      return (await storeOf(served.within(namespace)).prune(limits)) === biteSize
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

/** A loop that goes through all places. `act` does a bite in one of them, and returns whether there may be more. */
function createRounds<Place>(
  name: string,
  idleMs: number,
  places: { [Symbol.iterator](): Iterator<Place> },
  act: (place: Place) => Promise<boolean>,
): Loop {
  return createLoop({
    ...{ name, idleMs },
    async step({ signal, progress }) {
      let isMore = false
      for (const place of places) {
        if (signal.aborted) return 'idle'
        if (await act(place)) isMore = true
        progress()
      }
      return isMore ? 'more' : 'idle'
    },
  })
}

/**
 * Puts counts of jobs together, and looks how many jobs wait in each queue: a queue may fill while no job of it starts. A
 * queue that stays empty is written down once.
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
    return stores.series.roll(keep)
  }
}
