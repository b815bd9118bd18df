import type { AuditStore } from '../../../audit/index.ts'
import { createLoop, type Loop, type LoopEvents } from '../../../core/loop.ts'
import type { JobStore, LogStore } from '../../../jobs/index.ts'
import type { Served, ServedStores } from '../call.ts'
import type { Spaces } from '../namespace-services.ts'

/**
 * What a server does when nobody asks: it forgets request keys and guards whose time is over, takes back jobs whose
 * lease ran out and, if told to, forgets jobs that ended and acts of operators that were recorded long ago, in every
 * namespace that is in use. Safe anywhere and any number of times: each bite is a transaction of its own, and servers that do so at once
 * only share the work. No promise waits for it: `claim` judges leases itself.
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
  /** Learns of a loop's trouble. Must not throw. */
  readonly onTrouble: (loop: string, trouble: keyof LoopEvents, event: object) => void
}

const biteSize = 1_000
const keysIdleMs = 30_000
const leasesIdleMs = 5_000
const guardsIdleMs = 30_000
const forgettingIdleMs = 60_000

export function createServerUpkeep(parts: UpkeepParts): ServerUpkeep {
  const { served, spaces, retentionMs, auditKeepMs, onTrouble } = parts
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
  loops.push(createGuardForgetting(spaces))
  const namespaces = { served, spaces }
  if (retentionMs !== undefined)
    loops.push(
      createForgetting('server.retention', namespaces, retentionMs, ({ jobs }) => jobs),
      createForgetting('server.logs', namespaces, retentionMs, ({ logs }) => logs),
      createForgetting('server.waits', namespaces, retentionMs, ({ dependencies }) => ({
        prune: ({ limit }) => dependencies.prune(limit),
      })),
    )
  if (auditKeepMs !== undefined)
    loops.push(createForgetting('server.audit', namespaces, auditKeepMs, ({ audit }) => audit))
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

/** Guards past their time count for nobody; this only makes room. */
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
  storeOf: (stores: ServedStores) => Pick<JobStore | LogStore | AuditStore, 'prune'>,
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
