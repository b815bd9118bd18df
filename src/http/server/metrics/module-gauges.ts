import type { BoundCounts, Contention } from '../../../contention/index.ts'
import type { ServiceCounts } from '../../../dispatch/index.ts'
import type { MonitorProblems, SendingCounts } from '../../../monitor/index.ts'
import type { OnceStats } from '../../../once/index.ts'
import { bucketsOf, counter, type Family, gauge, type Value } from './metric-registry.ts'

/**
 * Counts of guards, senders, the monitor and dispatch, read at a scrape. Each namespace has its own counts. A scrape
 * shows up to 100 namespaces by name and adds up the rest as `other`. The first five counters have the names of `GET
 * /v1/once/stats`.
 */

/** A namespace and its counts of guards. */
export interface CountedSpace {
  readonly namespace: string
  readonly tally: { stats(): OnceStats }
}

/** The notifications sent for a namespace, by type of channel. */
export interface NamespaceSendings {
  readonly namespace: string
  readonly counts: Readonly<Record<string, Readonly<SendingCounts>>>
}

/** How many namespaces a scrape shows by name. */
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
      // Answers without the store have their own counter.
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
        summed(all.map((stats) => line({ namespace: stats.namespace }, stats[name]))),
      ),
    ),
    counter('signalbox_once_total', 'Answers of guards, by guard and outcome.', summed(answers)),
    counter(
      'signalbox_once_degraded_total',
      'Answers by the policy, because the store did not answer.',
      summed(degraded),
    ),
  ]
}

/** The outcomes of notifications of this server's senders. */
export function sendingFamilies(sendings: Iterable<NamespaceSendings>): readonly Family[] {
  const values = capped(sendings).flatMap(({ label, item }) =>
    Object.entries(item.counts).flatMap(([channel, counts]) =>
      Object.entries(counts).map(([outcome, value]) => line({ namespace: label, channel, outcome }, value)),
    ),
  )
  const help = 'Notifications by type of channel and outcome.'
  return [counter('signalbox_notifications_total', help, summed(values))]
}

/** Adds the shown label to each namespace. Chooses namespaces by name, so that every scrape shows the same ones. */
export function capped<Item extends { readonly namespace: string }>(
  items: Iterable<Item>,
): readonly { readonly label: string; readonly item: Item }[] {
  const sorted = [...items].sort((a, b) => (a.namespace < b.namespace ? -1 : 1))
  return sorted.map((item, at) => ({ label: at < onceMeterLimit ? item.namespace : 'other', item }))
}

function line(labels: Value['labels'], value: number): Value {
  return { labels, value }
}

/** Adds up values with equal labels, such as `other`. */
function summed(values: readonly Value[]): readonly Value[] {
  const sums = new Map<string, Value>()
  for (const { labels, value } of values) {
    const key = JSON.stringify(labels)
    sums.set(key, { labels, value: value + (sums.get(key)?.value ?? 0) })
  }
  return [...sums.values()]
}

/** The subscriptions with the most dead notifications have their own label. All others share `other`. */
export const namedSubscriptions = 100

/** Counts by subscription, so that an alert names it. Users choose these names, so their number is limited. */
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
    gauge(
      'signalbox_notifications_dead',
      'Notifications that were given up and not sent again, by subscription, in namespaces for which this server sends.',
      summed(dead),
    ),
    gauge(
      'signalbox_subscriptions_unreadable',
      'Subscriptions whose sealed channel this server cannot open: the key is missing, or the seal is broken.',
      summed(unreadable),
    ),
  ]
}

/** A namespace, with the nodes connected to this server by status, and the counts of its services here. */
export interface NodesSpace {
  readonly namespace: string
  nodeStates?(): ReadonlyMap<string, number>
  serviceCounts?(): readonly ServiceCounts[]
}

/** Nodes choose the names of services. Services above this limit, over all namespaces, are added up as `other`. */
export const maxServiceLines = 500

interface ServiceLine extends ServiceCounts {
  readonly namespace: string
}

/** Each server shows only its own nodes and waiting tasks, so that the sums over all servers are right. */
export function nodeFamilies(spaces: Iterable<NodesSpace>): readonly Family[] {
  const nodes: Value[] = []
  const lines: ServiceLine[] = []
  for (const space of spaces) {
    const { namespace } = space
    for (const [state, value] of space.nodeStates?.() ?? []) nodes.push(line({ namespace, state }, value))
    for (const counts of space.serviceCounts?.() ?? []) lines.push({ namespace, ...counts })
  }
  const shown = cappedServices(lines)
  const valuesOf = (read: (line: ServiceLine) => number) =>
    shown.map((one) => line({ namespace: one.namespace, service: one.service }, read(one)))
  return [
    gauge('signalbox_nodes', 'Nodes that are connected here, by status.', nodes),
    gauge(
      'signalbox_tasks_waiting',
      'Tasks that wait for a node at this server.',
      valuesOf(({ waiting }) => waiting),
    ),
    gauge(
      'signalbox_tasks_oldest_wait_seconds',
      'How long the oldest task that waits here has waited since it was submitted; 0 when none waits.',
      valuesOf(({ oldestWaitMs }) => Math.max(0, oldestWaitMs) / 1_000),
    ),
    gauge(
      'signalbox_slots',
      'Slots of the nodes that are connected here.',
      valuesOf(({ slots }) => slots),
    ),
    gauge(
      'signalbox_slots_used',
      'Slots in use of the nodes that are connected here.',
      valuesOf(({ used }) => used),
    ),
  ]
}

/**
 * Shows the services with the most waiting tasks by name. Adds up services without waiting tasks and used slots first.
 */
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

/**
 * Waits, holds, and which command waited for which. The number of kinds and cells is limited and they contain no user
 * data, so every caller of a scrape sees all of them.
 */
export function waitFamilies(contention: Pick<Contention, 'series'>): readonly Family[] {
  const { kinds, matrix } = contention.series(boundsMs)
  const family = (name: string, help: string, part: 'wait' | 'hold'): Family => ({
    ...{ name, help },
    type: 'histogram',
    values: kinds.flatMap(({ kind, [part]: counts }) => (counts ? waitsOf(name, kind, counts) : [])),
  })
  return [
    family('signalbox_wait_seconds', 'How long commands waited for their turn, by kind.', 'wait'),
    family('signalbox_hold_seconds', 'How long their turns took, by kind.', 'hold'),
    counter(
      'signalbox_waited_on_seconds_total',
      'Waits of more than a millisecond, by waiter and holder: the time in which the holder ran.',
      matrix.map(({ waiter, holder, ms }) => line({ waiter, holder }, ms / 1_000)),
    ),
  ]
}

/** Begins at a tenth of a millisecond, because a turn of one millisecond is long. */
const boundsMs = [0.1, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000]

function waitsOf(name: string, kind: string, { counts, count, sumMs }: BoundCounts): readonly Value[] {
  return bucketsOf(name, { kind }, boundsMs, { within: counts, count, sumMs })
}
