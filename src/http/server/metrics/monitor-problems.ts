import type { Monitor, MonitorProblems } from '../../../monitor/index.ts'
import type { Family, Value } from './metric-series.ts'

/**
 * The problems of a monitor that need an operator, for overviews and scrapes. The store is asked at most every two seconds,
 * however many callers there are. Where the answer is late or fails, the one before is used.
 */
export interface KnownProblems {
  /** `waitMs`: how long to wait for the store. @default a second */
  recent(waitMs?: number): Promise<MonitorProblems>
}

type Asked = Pick<Monitor, 'problems'>

const keepMs = 2_000
const patienceMs = 1_000
const none: MonitorProblems = { dead: [], unreadable: [], plain: 0 }
const known = new WeakMap<Asked, KnownProblems>()

/** The known problems of a monitor: one object for each monitor, so that all callers share its answers. */
export function knownProblemsOf(monitor: Asked): KnownProblems {
  let problems = known.get(monitor)
  if (problems === undefined) {
    problems = createKnownProblems(monitor)
    known.set(monitor, problems)
  }
  return problems
}

function createKnownProblems(monitor: Asked): KnownProblems {
  let last = none
  let askedAt = Number.NEGATIVE_INFINITY
  let asking: Promise<void> | undefined

  async function ask(): Promise<void> {
    askedAt = performance.now()
    try {
      last = await monitor.problems()
    } catch {
      // `/readyz` reports a store that does not answer.
    } finally {
      asking = undefined
    }
  }

  return {
    async recent(waitMs = patienceMs) {
      if (asking === undefined && performance.now() - askedAt >= keepMs) asking = ask()
      if (asking !== undefined) await atMost(Math.min(waitMs, patienceMs), asking)
      return last
    },
  }
}

async function atMost(ms: number, work: Promise<void>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  await Promise.race([work, late])
  clearTimeout(timer)
}

/** Subscriptions with a label of their own: those with the most dead notifications. All others share one, `other`. */
export const namedSubscriptions = 100

/** By subscription, so that an alert names it. People choose these names, so their number is bounded. */
export function problemFamilies(
  namespaces: readonly { readonly label: string; readonly problems: MonitorProblems }[],
): readonly Family[] {
  const dead = new Map<string, Value>()
  const unreadable = new Map<string, Value>()
  const add = (sums: Map<string, Value>, labels: Record<string, string>, count: number) => {
    const key = JSON.stringify(labels)
    sums.set(key, { labels, value: count + (sums.get(key)?.value ?? 0) })
  }
  const all = namespaces.flatMap(({ label: namespace, problems }) =>
    problems.dead.map((one) => ({ namespace, ...one })),
  )
  all.sort((a, b) => b.count - a.count)
  for (const [at, { namespace, channel, subscription, count }] of all.entries())
    add(dead, { namespace, channel, subscription: at < namedSubscriptions ? subscription : 'other' }, count)
  for (const { label: namespace, problems } of namespaces) {
    add(unreadable, { namespace }, problems.unreadable.length)
  }
  return [
    {
      name: 'signalbox_notifications_dead',
      help: 'Notifications that were given up and not sent again, by subscription, in the namespaces that this server sends for.',
      type: 'gauge',
      values: [...dead.values()],
    },
    {
      name: 'signalbox_subscriptions_unreadable',
      help: 'Subscriptions whose channel is sealed and does not open here: the key is missing, or the seal is broken.',
      type: 'gauge',
      values: [...unreadable.values()],
    },
  ]
}
