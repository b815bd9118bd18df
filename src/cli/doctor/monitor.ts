import type { MonitorProblems } from '../../monitor/index.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

/** What is wrong with subscriptions, and how their secrets are kept. `hasKey`: whether there is a key to seal with. */
export function judgeMonitor(
  { dead, unreadable, plain }: MonitorProblems,
  { hasKey, source }: { readonly hasKey: boolean; readonly source: string },
): readonly Finding[] {
  return [
    judgeSecrets(hasKey, source, plain),
    ...unreadable.map(({ subscription, message }) => judgeUnreadable(subscription, message)),
    ...(dead.length === 0
      ? [ok('notifications', 'subscriptions', 'None has dead notifications.')]
      : dead.map(({ subscription, count }) => judgeDead(subscription, count))),
  ]
}

function judgeSecrets(hasKey: boolean, source: string, plain: number): Finding {
  const many = `${plain} subscription${plain === 1 ? '' : 's'}`
  if (!hasKey && plain === 0)
    return ok(
      'secrets',
      source,
      'There is no key to seal channel secrets with, and no subscription needs one yet.',
    )
  if (!hasKey)
    return warning(
      'secrets',
      source,
      `There is no key, so the secrets of channels are plain text in the database (${many}).`,
      'Set SIGNALBOX_SECRET_KEY, such as `openssl rand -base64 32` prints, then run `signalbox monitor reseal`.',
    )
  if (plain === 0) return ok('secrets', source, 'The secrets of channels are sealed in the database.')
  return warning(
    'secrets',
    source,
    `The channels of ${many} were stored before there was a key, and are plain text in the database.`,
    'Run `signalbox monitor reseal`.',
  )
}

export function judgeDead(subscription: string, count: number): Finding {
  // Subscribers were not notified: that is lost until an operator replays it.
  return problem(
    'notifications',
    subscription,
    `${count} of its notifications ${count === 1 ? 'is' : 'are'} dead.`,
    'See why with `signalbox monitor notifications --state dead`, then `signalbox monitor replay --dead`.',
  )
}

export function judgeUnreadable(subscription: string, message: string | null): Finding {
  return problem(
    'secrets',
    subscription,
    message ?? 'Its channel is sealed, and the server cannot open it.',
    'Give the server the key (SIGNALBOX_SECRET_KEY; several are separated by commas).',
  )
}
