import type { SendingCounts } from '../../../monitor/index.ts'
import type { OnceStats } from '../../../once/index.ts'
import type { Family, Value } from './metric-series.ts'

/**
 * What was counted of guards, of the monitor's tasks and events, and of what was sent, as metrics. Each namespace counts
 * for itself; up to 100 are shown by name and the rest added up as `other`. The first five counters have the names that
 * `GET /v1/once/stats` shows them by.
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
  lock_acquired_count: 'Tasks that were taken in hand.',
  lock_rejected_count: 'Tasks that somebody else had in hand.',
  duplicate_events: 'Claims of keys that were known.',
  unique_events: 'Claims of keys that nobody had claimed before.',
  notification_dedup: 'Repeats that were not notified, because their window was open.',
}
type NamedCount = Exclude<keyof OnceStats, 'degraded' | 'answers'>

/** The counters of guards. */
export function onceFamilies(spaces: Iterable<CountedSpace>): readonly Family[] {
  const all = capped(spaces).map(({ label, item }) => ({ namespace: label, ...item.tally.stats() }))
  const answers = all.flatMap(({ namespace, answers }) =>
    Object.entries(answers)
      // Those that the store did not give are counted by themselves.
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
    counter('signalbox_once_total', 'Answers of guards, by whose keys and what they were.', answers),
    counter(
      'signalbox_once_degraded_total',
      'Answers that a policy gave because the store did not, by policy.',
      degraded,
    ),
  ]
}

/** What became of notifications that this server's senders had in hand. */
export function sendingFamilies(sendings: Iterable<NamespaceSendings>): readonly Family[] {
  const values = capped(sendings).flatMap(({ label, item }) =>
    Object.entries(item.counts).flatMap(([channel, counts]) =>
      Object.entries(counts).map(([outcome, value]) => line({ namespace: label, channel, outcome }, value)),
    ),
  )
  return [
    counter(
      'signalbox_notifications_total',
      'Notifications by type of channel and what came of them.',
      values,
    ),
  ]
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

/** Lines with the same labels are added up: those of `other`. */
function counter(name: string, help: string, values: readonly Value[]): Family {
  const sums = new Map<string, Value>()
  for (const { labels, value } of values) {
    const key = JSON.stringify(labels)
    sums.set(key, { labels, value: value + (sums.get(key)?.value ?? 0) })
  }
  return { name, help, type: 'counter', values: [...sums.values()] }
}
