import type { DeadCount } from './monitor-store.ts'
import type { Subscriber } from './subscription-rules.ts'

/** What needs an operator, by subscription. */
export interface MonitorProblems {
  /** Subscriptions with notifications that were given up. Those of ended subscriptions are not counted. */
  readonly dead: readonly DeadNotifications[]
  /** Subscriptions whose channel cannot be opened here: their notifications wait, or die when the seal is broken. */
  readonly unreadable: readonly UnreadableChannel[]
  /** How many subscriptions keep their secrets in plain. */
  readonly plain: number
}

export interface DeadNotifications {
  readonly subscriptionId: string
  /** The subscription's name. */
  readonly subscription: string
  /** The type of its channel. */
  readonly channel: string
  readonly count: number
  /** When the oldest of them died. */
  readonly since: number
}

export interface UnreadableChannel {
  readonly subscriptionId: string
  readonly subscription: string
  /** `secret_sealed` or `seal_broken`. */
  readonly code: string
  readonly message: string
}

export function findProblems(
  subscribers: readonly Subscriber[],
  counts: readonly DeadCount[],
): MonitorProblems {
  const byId = new Map(subscribers.map((subscriber) => [subscriber.id, subscriber]))
  return {
    dead: counts.flatMap(({ subscriptionId, count, since }) => {
      const found = byId.get(subscriptionId)
      if (found === undefined) return []
      return [{ subscriptionId, subscription: found.name, channel: found.stored.type, count, since }]
    }),
    unreadable: subscribers.flatMap(({ id, name, stored }) => {
      if (stored.secrets !== 'unreadable') return []
      const { code, message } = stored.problem!
      return [{ subscriptionId: id, subscription: name, code, message }]
    }),
    plain: subscribers.filter(({ stored }) => stored.secrets === 'plain').length,
  }
}
