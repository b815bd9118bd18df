import type { Duration } from '../../core/duration.ts'
import { showCount } from '../../core/job-words.ts'
import { duration, withDefaults } from '../../core/options.ts'

/**
 * Decides which alerts fire, from the facts that a server knows at one moment. Pure: it reads no clock and keeps no
 * state. Each alert is a subject of the monitor, which knows whether the alert was notified before and whether it is
 * over.
 */
export interface AlertFacts {
  /** The store's time. */
  readonly now: number
  readonly queues: readonly {
    readonly queue: string
    readonly paused: boolean
    readonly ready: number
    readonly running: number
    readonly dead: number
    readonly approximate: boolean
    readonly oldestReadyAt: number | null
  }[]
  /** The queues that live workers claim from. */
  readonly workedQueues: ReadonlySet<string>
  readonly schedules: readonly {
    readonly name: string
    readonly paused: boolean
    readonly nextAt: number | null
  }[]
  readonly locks: readonly {
    readonly operation: string
    readonly resource: string
    /** The time since which its first waiter waits. */
    readonly waitsSince: number
  }[]
  readonly nodes: readonly { readonly nodeId: string; readonly status: string }[]
  /** Subscriptions with dead notifications, or whose channel cannot be read. */
  readonly failingChannels: readonly string[]
  /** How long the store took to answer. */
  readonly storeMs: number
}

export interface Alert {
  readonly rule: AlertRule
  /** The queue, the lock, the node and so on. */
  readonly what: string
  /** Rises in large steps, so that an alert is notified again when it becomes much worse. */
  readonly level: number
  /** A sentence for operators. It may change while the alert stays the same. */
  readonly says: string
}

/** What each rule watches. */
export const alertRules = {
  'dead-jobs': 'A queue has dead jobs: again at 10, 100, 1,000 and so on.',
  'queue-behind': 'The oldest ready job of a queue that is not paused waits for long.',
  'no-worker': 'Jobs of a queue are ready, none runs, and no live worker claims from the queue.',
  'schedule-missed': 'A schedule should have run and did not.',
  'lock-waited': 'A request waits for a lock for long.',
  'node-lost': 'A node is gone without saying so.',
  'channel-failing': 'Notifications of a subscription were given up, or its channel cannot be read.',
  'store-slow': 'The store answers slowly.',
} as const

export type AlertRule = keyof typeof alertRules

export function judgeAlerts(facts: AlertFacts, limits: AlertLimits): readonly Alert[] {
  const { now, queues, schedules, locks, nodes, failingChannels, storeMs } = facts
  return [
    ...queues.filter(({ dead }) => dead > 0).map(deadJobs),
    ...queues.flatMap((stats) => queueAlerts(stats, facts, limits)),
    ...schedules
      .filter(({ paused, nextAt }) => !paused && nextAt !== null && now - nextAt > limits.scheduleMs)
      .map(({ name, nextAt }) => alert('schedule-missed', name, `It was due ${span(now - nextAt!)} ago.`)),
    ...locks
      .filter(({ waitsSince }) => now - waitsSince > limits.lockMs)
      .map(({ operation, resource, waitsSince }) =>
        alert('lock-waited', `${operation} ${resource}`, `A request waits for ${span(now - waitsSince)}.`),
      ),
    ...nodes
      .filter(({ status }) => status === 'gone')
      .map(({ nodeId }) => alert('node-lost', nodeId, 'The node does not answer.')),
    ...[...new Set(failingChannels)].map((name) =>
      alert('channel-failing', name, 'Notifications of this subscription do not arrive.'),
    ),
    ...(storeMs > limits.storeMs
      ? [alert('store-slow', 'store', `It took ${span(storeMs)} to answer.`)]
      : []),
  ]
}

function queueAlerts(
  stats: AlertFacts['queues'][number],
  { now, workedQueues }: AlertFacts,
  { behindMs, noWorkerMs }: AlertLimits,
): readonly Alert[] {
  const { queue, paused, ready, running, oldestReadyAt } = stats
  if (paused || oldestReadyAt === null) return []
  const waitsMs = now - oldestReadyAt
  const says = `${showCount(stats, ready)} ready, the oldest for ${span(waitsMs)}.`
  const hasNoWorker = running === 0 && waitsMs > noWorkerMs && !workedQueues.has(queue)
  // `no-worker` names the cause, so `queue-behind` would only repeat it.
  if (hasNoWorker) return [alert('no-worker', queue, `${says} No live worker takes them.`)]
  return waitsMs > behindMs ? [alert('queue-behind', queue, says)] : []
}

function deadJobs(stats: AlertFacts['queues'][number]): Alert {
  const { queue, dead } = stats
  const level = 10 ** Math.floor(Math.log10(dead))
  return { rule: 'dead-jobs', what: queue, level, says: `${showCount(stats, dead)} dead.` }
}

function alert(rule: AlertRule, what: string, says: string): Alert {
  return { rule, what, level: 1, says }
}

function span(ms: number): string {
  if (ms < 10_000) return `${Math.round(ms / 100) / 10} s`
  if (ms < 120_000) return `${Math.round(ms / 1_000)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  return `${Math.round(ms / 3_600_000)} h`
}

/** The name of an alert's subject: the rule, then the queue, lock, node and so on. */
export function subjectOf({ rule, what }: Pick<Alert, 'rule' | 'what'>): string {
  return `${rule} ${what}`.slice(0, 191)
}

/** When a server alerts of its own problems. */
export interface AlertOptions {
  /** How long the oldest ready job of a queue may wait. @default 300_000 */
  readonly behindMs?: Duration | undefined
  /** The same while no live worker claims from the queue. @default 60_000 */
  readonly noWorkerMs?: Duration | undefined
  /** How late a schedule may run. @default 120_000 */
  readonly scheduleMs?: Duration | undefined
  /** How long a request may wait for a lock. @default 600_000 */
  readonly lockMs?: Duration | undefined
  /** How long the store may take to answer. @default 2_000 */
  readonly storeMs?: Duration | undefined
  /** How often a server checks. @default 15_000 */
  readonly everyMs?: Duration | undefined
}

export type ResolvedAlertOptions = Readonly<Record<keyof AlertOptions, number>>

/** The times after which an alert fires. */
export type AlertLimits = Omit<ResolvedAlertOptions, 'everyMs'>

export const alertDefaults: ResolvedAlertOptions = {
  behindMs: 300_000,
  noWorkerMs: 60_000,
  scheduleMs: 120_000,
  lockMs: 600_000,
  storeMs: 2_000,
  everyMs: 15_000,
}

/** Throws `invalid_argument`. */
export function resolveAlertOptions(name: string, options: AlertOptions | undefined): ResolvedAlertOptions {
  const given = withDefaults<Record<keyof AlertOptions, Duration>>(name, options, alertDefaults)
  const entries = Object.entries(given).map(([key, value]) => [
    key,
    duration(`${name}.${key}`, value, { min: 1 }),
  ])
  return Object.fromEntries(entries) as unknown as ResolvedAlertOptions
}
