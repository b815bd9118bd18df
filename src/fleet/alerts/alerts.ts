import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import type { Monitor, SubscribeOptions, Subscription } from '../../monitor/index.ts'
import { type Alert, type AlertRule, alertRules, subjectOf } from './alert-rules.ts'

/**
 * Alerts are subjects of the monitor, with their own source. So the monitor decides whom to notify, once, in digests,
 * with silences, and explains its decisions. Alerts are off until a subscription names the source.
 *
 *     rules ──▶ firing alerts ──▶ compare with the subjects of the source ──▶ report new, worse and ended alerts
 */
export const alertSource = 'signalbox'

/** The part of a monitor that alerts use; a remote box has it too. */
export type AlertMonitor = Pick<
  Monitor,
  'report' | 'subscribe' | 'unsubscribe' | 'subscriptions' | 'subjects'
>

/** A subscription to alerts. */
export interface AlertSubscribeOptions extends Omit<SubscribeOptions, 'match'> {
  /** Only alerts of this rule. @default all */
  readonly rule?: AlertRule | undefined
}

/** An alert that fires. */
export interface FiringAlert {
  readonly subject: string
  readonly level: number
  readonly says: string
  /** The time since which it fires at this level. */
  readonly since: number
}

export interface AlertVerbs {
  /** The alerts that fire, the oldest first. */
  firing(): Promise<readonly FiringAlert[]>
  /** The subscriptions to alerts. */
  subscriptions(): Promise<readonly Subscription[]>
  /** Subscribes a channel to alerts. */
  add(options: AlertSubscribeOptions): Promise<Subscription>
  /** Throws `not_found` if there is no such subscription to alerts. */
  remove(id: string): Promise<void>
  /** Sends a test alert like any other alert. Returns the number of notifications. */
  test(): Promise<{ readonly notified: number }>
  /** Reports the changes since the last check. `round` is the same for all servers that check at the same time. */
  report(alerts: readonly Alert[], now: number, round: string): Promise<void>
}

interface State {
  readonly status: 'firing' | 'ok'
  readonly level: number
  readonly says: string
}

const ignored = ['says']

/** Alerts of about the same time share one message. An alert that comes and goes is not repeated for ten minutes. */
export const alertSubscribeDefaults = {
  windowMs: 600_000,
  digestMs: 30_000,
  notifyNew: true,
  reconcile: true,
} as const

export function createAlerts(monitor: AlertMonitor): AlertVerbs {
  async function known(): Promise<ReadonlyMap<string, State & { readonly since: number }>> {
    const states = new Map<string, State & { readonly since: number }>()
    for (let cursor: string | undefined; ; ) {
      const page = await monitor.subjects({ source: alertSource, limit: 500, ...(cursor && { cursor }) })
      for (const { subject, state, changedAt } of page.items)
        states.set(subject!, { ...(state as State), since: changedAt })
      if (page.cursor === null) return states
      cursor = page.cursor
    }
  }

  const subscriptions = async () =>
    (await monitor.subscriptions()).filter(({ match }) => match.source === alertSource)

  return {
    subscriptions,

    async firing() {
      const all = [...(await known())].filter(([, { status }]) => status === 'firing')
      return all
        .map(([subject, { level, says, since }]) => ({ subject, level, says, since }))
        .sort((a, b) => a.since - b.since)
    },

    async add({ rule, ...options }) {
      if (rule !== undefined && !Object.hasOwn(alertRules, rule)) throw unknownRule(rule)
      const match = { source: alertSource, ...(rule && { subject: { prefix: `${rule} ` } }) }
      return monitor.subscribe({ ...alertSubscribeDefaults, ...options, match })
    },

    async remove(id) {
      const mine = await subscriptions()
      if (mine.some((one) => one.id === id) && (await monitor.unsubscribe(id)) !== false) return
      throw new SignalboxError('not_found', `There is no subscription "${id}" to alerts.`, {
        details: { id },
      })
    },

    async test() {
      const id = createId()
      const { notified } = await monitor.report({
        ...{ taskId: `alerts test ${id}`, source: alertSource, observedAt: Date.now(), ignore: ignored },
        subjects: [
          { subject: `test ${id}`, state: { status: 'ok', level: 0, says: 'This is a test alert.' } },
        ],
      })
      return { notified }
    },

    async report(alerts, now, round) {
      const before = await known()
      const subjects = new Map<string, State>()
      for (const alert of alerts) {
        const { level, says } = alert
        const old = before.get(subjectOf(alert))
        if (old?.status !== 'firing' || old.level !== level)
          subjects.set(subjectOf(alert), { status: 'firing', level, says })
      }
      const firing = new Set(alerts.map(subjectOf))
      for (const [subject, { status }] of before)
        if (status === 'firing' && !firing.has(subject))
          subjects.set(subject, { status: 'ok', level: 0, says: 'It is over.' })
      if (subjects.size === 0) return
      await monitor.report({
        ...{ taskId: `alerts ${round}`, source: alertSource, observedAt: now, ignore: ignored },
        subjects: Array.from(subjects, ([subject, state]) => ({ subject, state })),
      })
    },
  }
}

function unknownRule(rule: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `There is no rule "${rule}". The rules are ${Object.keys(alertRules).join(', ')}.`,
    { details: { option: 'rule' } },
  )
}
