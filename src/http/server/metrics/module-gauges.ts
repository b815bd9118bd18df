import type { BoundCounts, Contention } from '../../../contention/index.ts'
import type { ServiceCounts } from '../../../dispatch/index.ts'
import type { MonitorProblems, SendingCounts } from '../../../monitor/index.ts'
import type { OnceStats } from '../../../once/index.ts'
import { bucketsOf, counter, type Family, gauge, type Value } from './metric-registry.ts'

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
        summed(all.map((stats) => line({ namespace: stats.namespace }, stats[name]))),
      ),
    ),
    counter('signalbox_once_total', 'Answers of guards, by guard and outcome.', summed(answers)),
    counter(
      'signalbox_once_degraded_total',
      'Answers that the policy gave because the store did not.',
      summed(degraded),
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
  const help = 'Notifications by type of channel and outcome.'
  return [counter('signalbox_notifications_total', help, summed(values))]
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
    gauge(
      'signalbox_notifications_dead',
      'Notifications that were given up and not sent again, by subscription, in the namespaces that this server sends for.',
      summed(dead),
    ),
    gauge(
      'signalbox_subscriptions_unreadable',
      'Subscriptions whose channel is sealed and does not open here: the key is missing, or the seal is broken.',
      summed(unreadable),
    ),
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
      'Those of them in use.',
      valuesOf(({ used }) => used),
    ),
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

/**
 * Waits, holds and who waited on whom. Kinds and cells are bounded in number and contain no data of users, so every caller
 * that may scrape sees all of them.
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

/** From a tenth of a millisecond: a turn that takes one is long. */
const boundsMs = [0.1, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000]

function waitsOf(name: string, kind: string, { counts, count, sumMs }: BoundCounts): readonly Value[] {
  return bucketsOf(name, { kind }, boundsMs, { within: counts, count, sumMs })
}
