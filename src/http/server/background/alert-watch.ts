import { createLoop, type Loop } from '../../../core/loop.ts'
import {
  type AlertFacts,
  createAlerts,
  judgeAlerts,
  type ResolvedAlertOptions,
} from '../../../fleet/alerts/index.ts'
import { isReserved } from '../../../jobs/index.ts'
import type { Served } from '../call.ts'
import { queueCountsOf } from '../metrics/queue-counts.ts'
import type { Space, Spaces } from '../namespace-services.ts'

/**
 * Watches a namespace for alerts while a subscription wants them. Every server looks, but the monitor takes one report
 * of each round, so it notifies an alert once. The server reads the facts for the rules with a few statements.
 */
export function createAlertWatch(
  parts: { readonly served: Pick<Served, 'time'>; readonly spaces: Spaces },
  options: ResolvedAlertOptions,
  namespace: string,
): Loop {
  return createLoop({
    name: 'server.alerts',
    idleMs: options.everyMs,
    async step(): Promise<'idle'> {
      const space = parts.spaces.enter(namespace)
      try {
        const alerts = createAlerts(space.monitor)
        if ((await alerts.subscriptions()).length === 0) return 'idle'
        const facts = await gatherFacts(space, parts.served)
        await alerts.report(judgeAlerts(facts, options), facts.now, roundOf(facts.now, options.everyMs))
      } finally {
        parts.spaces.leave(space)
      }
      return 'idle'
    },
  })
}

/** Servers that look within the same time report the same round: the second one is a duplicate. */
function roundOf(now: number, everyMs: number): string {
  return `${Math.floor(now / everyMs)}`
}

const maxWorkers = 500
const maxSchedules = 500
const maxLocks = 500
/** How many wait queues the server reads. */
const maxInspected = 50

async function gatherFacts(space: Space, served: Pick<Served, 'time'>): Promise<AlertFacts> {
  const beganAt = performance.now()
  const now = await served.time()
  const storeMs = performance.now() - beganAt
  const [{ lines }, { workers }, schedules, locks, problems] = await Promise.all([
    queueCountsOf(space.stores).now(),
    space.stores.workers.list({ limit: maxWorkers }),
    space.jobs.schedules.list({ limit: maxSchedules }),
    waitedLocks(space),
    space.monitor.problems(),
  ])
  return {
    ...{ now, storeMs, locks },
    queues: lines.filter(({ queue }) => !isReserved(queue)),
    workedQueues: new Set(
      workers
        .filter(({ leaseEndsAt, mode }) => leaseEndsAt > now && mode === 'running')
        .flatMap(({ queues }) => queues),
    ),
    schedules: schedules.items,
    nodes: space.dispatch.nodes(),
    failingChannels: [...problems.dead, ...problems.unreadable].map(({ subscription }) => subscription),
  }
}

async function waitedLocks(space: Space): Promise<AlertFacts['locks']> {
  const { items } = await space.locks.list({ limit: maxLocks })
  const waited = items.filter(({ waiterCount }) => waiterCount > 0).slice(0, maxInspected)
  const queues = await Promise.all(
    waited.map(({ operation, resource }) => space.locks.inspect({ operation, resource })),
  )
  return queues.flatMap(({ operation, resource, waiters }) =>
    waiters.length === 0
      ? []
      : [{ operation, resource, waitsSince: Math.min(...waiters.map(({ since }) => since)) }],
  )
}
