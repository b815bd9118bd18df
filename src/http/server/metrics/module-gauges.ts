import type { ServiceCounts } from '../../../dispatch/index.ts'
import type { MonitorProblems, SendingCounts } from '../../../monitor/index.ts'
import type { OnceStats } from '../../../once/index.ts'
import type { Family, Value } from './metric-registry.ts'

/**
 * What guards, senders, the monitor and dispatch count themselves, read at a scrape. Each namespace counts for itself. Up to
 * 100 namespaces are shown by name, and the rest are added up as `other`. The first five counters have the names that
 * `GET /v1/once/stats` uses.
 */

/** A namespace, and what it counted of guards. */
export interface CountedSpace {
  readonly namespace: string
  readonly tally: { stats(): OnceStats }
}

/** What was sent for a namespace, by type of channel. */
export interface NamespaceSendings {
  readonly namespace: string
  readonly counts: Readonly<Record<string, Readonly<SendingCounts>>>
}

/** How many namespaces are shown by name. */
export const onceMeterLimit = 100

const named: Readonly<Record<NamedCount, string>> = {
  lock_acquired_count: 'Tasks that were taken up.',
  lock_rejected_count: 'Tasks that another caller had taken up.',
  duplicate_events: 'Claims of known keys.',
  unique_events: 'Claims of new keys.',
  notification_dedup: 'Repeats that were not notified, because their window was open.',
}
type NamedCount = Exclude<keyof OnceStats, 'degraded' | 'answers'>

/** The counters of guards. */
export function onceFamilies(spaces: Iterable<CountedSpace>): readonly Family[] {
  const all = capped(spaces).map(({ label, item }) => ({ namespace: label, ...item.tally.stats() }))
  const answers = all.flatMap(({ namespace, answers }) =>
    Object.entries(answers)
      // Answers that the store did not give have their own counter.
      .filter(([guard]) => guard !== 'degraded')
      .flatMap(([guard, outcomes]) =>
        Object.entries(outcomes).map(([outcome, value]) => line({ namespace, guard, outcome }, value)),
      ),
  )
  const degraded = all.flatMap(({ namespace, answers }) =>
    ['open', 'closed'].map((policy) => line({ namespace, policy }, answers.degraded?.[policy] ?? 0)),
  )
  return [
    ...(Object.keys(named) as NamedCount[]).map((name) =>
      counter(
        `signalbox_${name}`,
        named[name],
        all.map((stats) => line({ namespace: stats.namespace }, stats[name])),
      ),
    ),
    counter('signalbox_once_total', 'Answers of guards, by guard and outcome.', answers),
    counter(
      'signalbox_once_degraded_total',
      'Answers that the policy gave because the store did not.',
      degraded,
    ),
  ]
}

/** How the notifications of this server's senders ended. */
export function sendingFamilies(sendings: Iterable<NamespaceSendings>): readonly Family[] {
  const values = capped(sendings).flatMap(({ label, item }) =>
    Object.entries(item.counts).flatMap(([channel, counts]) =>
      Object.entries(counts).map(([outcome, value]) => line({ namespace: label, channel, outcome }, value)),
    ),
  )
  return [counter('signalbox_notifications_total', 'Notifications by type of channel and outcome.', values)]
}

/** Each with the namespace it is shown by; by name, so that from one scrape to the next the same ones are shown. */
export function capped<Item extends { readonly namespace: string }>(
  items: Iterable<Item>,
): readonly { readonly label: string; readonly item: Item }[] {
  const sorted = [...items].sort((a, b) => (a.namespace < b.namespace ? -1 : 1))
  return sorted.map((item, at) => ({ label: at < onceMeterLimit ? item.namespace : 'other', item }))
}

function line(labels: Value['labels'], value: number): Value {
  return { labels, value }
}

function counter(name: string, help: string, values: readonly Value[]): Family {
  return { name, help, type: 'counter', values: summed(values) }
}

/** Values with the same labels are added up: those of `other`. */
function summed(values: readonly Value[]): readonly Value[] {
  const sums = new Map<string, Value>()
  for (const { labels, value } of values) {
    const key = JSON.stringify(labels)
    sums.set(key, { labels, value: value + (sums.get(key)?.value ?? 0) })
  }
  return [...sums.values()]
}

/** Subscriptions with a label of their own: those with the most dead notifications. All others share one, `other`. */
export const namedSubscriptions = 100

/** By subscription, so that an alert names it. People choose these names, so their number is bounded. */
export function problemFamilies(
  namespaces: readonly { readonly label: string; readonly problems: MonitorProblems }[],
): readonly Family[] {
  const all = namespaces.flatMap(({ label: namespace, problems }) =>
    problems.dead.map((one) => ({ namespace, ...one })),
  )
  all.sort((a, b) => b.count - a.count)
  const dead = all.map(({ namespace, channel, subscription, count }, at) =>
    line({ namespace, channel, subscription: at < namedSubscriptions ? subscription : 'other' }, count),
  )
  const unreadable = namespaces.map(({ label: namespace, problems }) =>
    line({ namespace }, problems.unreadable.length),
  )
  return [
    {
      name: 'signalbox_notifications_dead',
      help: 'Notifications that were given up and not sent again, by subscription, in the namespaces that this server sends for.',
      type: 'gauge',
      values: summed(dead),
    },
    {
      name: 'signalbox_subscriptions_unreadable',
      help: 'Subscriptions whose channel is sealed and does not open here: the key is missing, or the seal is broken.',
      type: 'gauge',
      values: summed(unreadable),
    },
  ]
}

/** A namespace, how many nodes are connected to this server in it, by status, and how its services stand here. */
export interface NodesSpace {
  readonly namespace: string
  nodeStates?(): ReadonlyMap<string, number>
  serviceCounts?(): readonly ServiceCounts[]
}

/** Nodes choose the names of services: more lines than these, over all namespaces, are added up as `other`. */
export const maxServiceLines = 500

interface ServiceLine extends ServiceCounts {
  readonly namespace: string
}

/** Each server shows its own nodes and the tasks that wait at it, so that those of all servers add up. */
export function nodeFamilies(spaces: Iterable<NodesSpace>): readonly Family[] {
  const nodes: Value[] = []
  const lines: ServiceLine[] = []
  for (const space of spaces) {
    const { namespace } = space
    for (const [state, value] of space.nodeStates?.() ?? [])
      nodes.push({ labels: { namespace, state }, value })
    for (const counts of space.serviceCounts?.() ?? []) lines.push({ namespace, ...counts })
  }
  const shown = cappedServices(lines)
  const gauge = (name: string, help: string, read: (line: ServiceLine) => number): Family => ({
    name,
    help,
    type: 'gauge',
    values: shown.map((line) => ({
      labels: { namespace: line.namespace, service: line.service },
      value: read(line),
    })),
  })
  return [
    {
      name: 'signalbox_nodes',
      help: 'Nodes that are connected here, by status.',
      type: 'gauge',
      values: nodes,
    },
    gauge('signalbox_tasks_waiting', 'Tasks that wait for a node at this server.', ({ waiting }) => waiting),
    gauge(
      'signalbox_tasks_oldest_wait_seconds',
      'How long the oldest task that waits here has waited since it was submitted; 0 when none waits.',
      ({ oldestWaitMs }) => Math.max(0, oldestWaitMs) / 1_000,
    ),
    gauge('signalbox_slots', 'Slots of the nodes that are connected here.', ({ slots }) => slots),
    gauge('signalbox_slots_used', 'Those of them in use.', ({ used }) => used),
  ]
}

/** The lines in which most waits keep their names; those in which nothing waits and no slot is used give way first. */
function cappedServices(lines: readonly ServiceLine[]): readonly ServiceLine[] {
  if (lines.length <= maxServiceLines) return lines
  const byWeight = lines.toSorted((a, b) => b.waiting - a.waiting || b.used - a.used || b.slots - a.slots)
  const rest = byWeight.slice(maxServiceLines)
  const sum = (read: (line: ServiceLine) => number) => rest.reduce((total, line) => total + read(line), 0)
  return [
    ...byWeight.slice(0, maxServiceLines),
    {
      ...{ namespace: 'other', service: 'other' },
      waiting: sum(({ waiting }) => waiting),
      oldestWaitMs: Math.max(...rest.map(({ oldestWaitMs }) => oldestWaitMs)),
      slots: sum(({ slots }) => slots),
      used: sum(({ used }) => used),
    },
  ]
}
