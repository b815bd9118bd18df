import type { AuditStore } from '../../../audit/index.ts'
import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'
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
import type { Spaces } from '../namespace-services.ts'

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
  /** Learns of a loop's trouble. Must not throw. */
  readonly onTrouble: (loop: string, trouble: keyof LoopEvents, event: object) => void
}

const biteSize = 1_000
const keysIdleMs = 30_000
const leasesIdleMs = 5_000
const guardsIdleMs = 30_000
const forgettingIdleMs = 60_000
const seriesIdleMs = 30_000
const countingIdleMs = 30_000

export function createServerUpkeep(parts: UpkeepParts): ServerUpkeep {
  const { served, spaces, retentionMs, auditKeepMs, series, onTrouble } = parts
  const loops = [
    createLoop({
      name: 'server.keys',
      idleMs: keysIdleMs,
      step: async () => ((await served.pruneKeys(biteSize)) === biteSize ? 'more' : 'idle'),
    }),
    createLoop({
      name: 'server.leases',
      idleMs: leasesIdleMs,
      async step({ signal, progress }) {
        let isMore = false
        for (const { stores } of spaces) {
          if (signal.aborted) return 'idle'
          const { ready, dead, cancelled } = await stores.jobs.reclaim(biteSize)
          if (ready + dead + cancelled >= biteSize) isMore = true
          progress()
        }
        return isMore ? 'more' : 'idle'
      },
    }),
  ]
  loops.push(createGuardForgetting(spaces), createErrorCounting(spaces))
  const namespaces = { served, spaces }
  loops.push(
    createForgetting('server.workers', namespaces, membershipTimes.keepGoneMs, ({ workers }) => workers),
  )
  if (retentionMs !== undefined)
    loops.push(
      createForgetting('server.retention', namespaces, retentionMs, ({ jobs }) => jobs),
      createForgetting('server.logs', namespaces, retentionMs, ({ logs }) => logs),
      createForgetting('server.errors', namespaces, retentionMs, ({ attempts }) => attempts),
      createForgetting('server.waits', namespaces, retentionMs, ({ dependencies }) => ({
        prune: ({ limit }) => dependencies.prune(limit),
      })),
    )
  if (auditKeepMs !== undefined)
    loops.push(createForgetting('server.audit', namespaces, auditKeepMs, ({ audit }) => audit))
  if (series !== undefined) loops.push(createSeriesUpkeep(spaces, series))
  for (const { name, events } of loops) {
    for (const trouble of ['failed', 'stalled', 'recovered'] as const) {
      events.on(trouble, (event) => onTrouble(name, trouble, event))
    }
  }
  return {
    loops,
    async [Symbol.asyncDispose]() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}

/**
 * Puts counts of jobs together, and looks how many jobs wait in each queue: a queue may fill while no job of it starts. A
 * queue that stays empty is written down once.
 */
function createSeriesUpkeep(spaces: Spaces, keep: SeriesKeep): Loop {
  const full = new WeakMap<object, ReadonlySet<string>>()
  return createLoop({
    name: 'server.series',
    idleMs: seriesIdleMs,
    async step({ signal, progress }) {
      let isMore = false
      for (const { stores, activity } of spaces) {
        if (signal.aborted) return 'idle'
        if (activity === undefined) continue
        const { lines } = await queueCountsOf(stores).recent()
        const before = full.get(activity) ?? new Set()
        const busy = lines.filter(({ queue, ready, running }) => !isReserved(queue) && ready + running > 0)
        for (const line of busy) activity.seen(line.queue, line)
        const now = new Set(busy.map(({ queue }) => queue))
        for (const queue of before) if (!now.has(queue)) activity.seen(queue, { ready: 0, running: 0 })
        full.set(activity, now)
        if (await stores.series.roll(keep)) isMore = true
        progress()
      }
      return isMore ? 'more' : 'idle'
    },
  })
}

/** Expired guards have no effect; deleting them only frees space. */
function createGuardForgetting(spaces: Spaces): Loop {
  return createLoop({
    name: 'server.guards',
    idleMs: guardsIdleMs,
    async step({ signal, progress }) {
      let isMore = false
      for (const { stores } of spaces) {
        for (const store of new Set([stores.guards, stores.ownGuards ?? stores.guards])) {
          if (signal.aborted) return 'idle'
          if ((await store.prune(biteSize)) >= biteSize) isMore = true
          progress()
        }
      }
      return isMore ? 'more' : 'idle'
    },
  })
}

/** A store cannot list its namespaces, so it is those in use, and the one that is used when none is named. */
function createForgetting(
  name: string,
  { served, spaces }: { readonly served: Pick<Served, 'within'>; readonly spaces: Spaces },
  keepMs: number,
  storeOf: (
    stores: ServedStores,
  ) => Pick<JobStore | LogStore | AttemptStore | AuditStore | WorkerStore, 'prune'>,
): Loop {
  return createLoop({
    name,
    idleMs: Math.min(forgettingIdleMs, keepMs),
    async step({ signal, progress }) {
      let isMore = false
      for (const namespace of new Set(['default', ...[...spaces].map((space) => space.namespace)])) {
        if (signal.aborted) return 'idle'
        const store = storeOf(served.within(namespace))
        if ((await store.prune({ olderThanMs: keepMs, limit: biteSize })) === biteSize) isMore = true
        progress()
      }
      return isMore ? 'more' : 'idle'
    },
  })
}

/** Counts attempts that failed or were lost in the groups of their errors, also where no worker runs. */
function createErrorCounting(spaces: Spaces): Loop {
  return createLoop({
    name: 'server.error-groups',
    idleMs: countingIdleMs,
    async step({ signal, progress }) {
      let isMore = false
      for (const { stores, activity } of spaces) {
        if (signal.aborted) return 'idle'
        if (await countSome(stores.attempts, activity)) isMore = true
        progress()
      }
      return isMore ? 'more' : 'idle'
    },
  })
}
