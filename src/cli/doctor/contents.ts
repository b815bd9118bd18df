import type { Token } from '../../access/index.ts'
import { showCount } from '../../core/count-estimates.ts'
import type { QueueStats } from '../../jobs/index.ts'
import type { MonitorProblems } from '../../monitor/index.ts'
import { showSpan } from '../print.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

/** The longest wait of a ready job before its queue counts as behind; the dashboard has the same limit. */
const behindMs = 60_000
/** More ended jobs than this need a retention. */
export const manyEnded = 10_000

/** Queues with dead jobs, paused queues with ready jobs, and queues that are behind. */
export function judgeQueues(queues: readonly QueueStats[], now: number): readonly Finding[] {
  const findings = queues.flatMap((line) => judgeQueue(line, now))
  if (findings.length > 0) return findings
  return [
    ok(
      'queues',
      'queues',
      `${queues.length} checked: none has dead jobs, is behind, or is paused with ready jobs.`,
    ),
  ]
}

function judgeQueue(line: QueueStats, now: number): Finding[] {
  const { queue, dead, paused, ready, oldestReadyAt } = line
  const findings: Finding[] = []
  if (dead > 0)
    findings.push(
      warning(
        'queues',
        queue,
        `${showCount(line, dead)} of its jobs ${dead === 1 ? 'is' : 'are'} dead.`,
        `See why with \`signalbox jobs ls --search "queue:${queue} state:dead"\`, then \`signalbox jobs bulk retry\` or \`delete\`.`,
      ),
    )
  if (paused && ready > 0)
    findings.push(
      warning(
        'queues',
        queue,
        `It is paused with ${showCount(line, ready)} ready job${ready === 1 ? '' : 's'}.`,
        `Resume it with \`signalbox queues resume ${queue}\`.`,
      ),
    )
  if (!paused && oldestReadyAt !== null && now - oldestReadyAt > behindMs)
    findings.push(
      warning(
        'queues',
        queue,
        `It is behind: ${showCount(line, ready)} ready, the oldest has waited ${showSpan(now - oldestReadyAt)}.`,
        'Start more workers, or check why the running ones claim nothing (their kinds, the limits of the queue).',
      ),
    )
  return findings
}

/** Ended jobs are kept unless a retention is set. `completed`: the least number of completed jobs. */
export function judgeRetention(source: string, retentionMs: number | undefined, completed: number): Finding {
  if (retentionMs !== undefined)
    return ok('retention', source, `Ended jobs are deleted after ${showSpan(retentionMs)}.`)
  if (completed < manyEnded)
    return ok('retention', source, 'Ended jobs are never deleted; there are not many yet.')
  return warning(
    'retention',
    source,
    `Ended jobs are never deleted, and at least ${completed} are stored.`,
    'Set --retention, such as 30d.',
  )
}

const soonMs = 7 * 86_400_000

/** Judges the valid tokens. */
export function judgeTokens(
  tokens: readonly (Token & { readonly live: boolean })[],
  now: number,
): readonly Finding[] {
  const live = tokens.filter((token) => token.live)
  const findings = live.flatMap((token) => judgeToken(token, now))
  if (findings.length > 0) return findings
  return [
    ok(
      'tokens',
      'tokens',
      live.length === 0 ? 'There are no tokens.' : `${live.length} are valid, without problems.`,
    ),
  ]
}

function judgeToken({ id, name, scope, namespace, expiresAt }: Token, now: number): readonly Finding[] {
  const subject = `${name} (${id})`
  if (scope === 'admin' && expiresAt === null)
    return [
      warning(
        'tokens',
        subject,
        `It has the scope admin${namespace === '*' ? ' in every namespace' : ''} and never expires.`,
        `Create one that expires (\`signalbox token create --scope admin --expires 90d\`), then \`signalbox token revoke ${id}\`.`,
      ),
    ]
  if (expiresAt !== null && expiresAt - now < soonMs)
    return [
      warning(
        'tokens',
        subject,
        `It expires in ${showSpan(Math.max(0, expiresAt - now))}.`,
        'Create another with `signalbox token create` and give it to its user.',
      ),
    ]
  return []
}

/** What is wrong with subscriptions, and how their secrets are kept. `hasKey`: whether there is a key to seal with. */
export function judgeMonitor(
  { dead, unreadable, plain }: MonitorProblems,
  { hasKey, source }: { readonly hasKey: boolean; readonly source: string },
): readonly Finding[] {
  return [
    judgeSecrets(hasKey, source, plain),
    ...unreadable.map(({ subscription, message }) => judgeUnreadable(subscription, message)),
    ...(dead.length === 0
      ? [ok('notifications', 'subscriptions', 'No dead notifications.')]
      : dead.map(({ subscription, count }) => judgeDead(subscription, count))),
  ]
}

function judgeSecrets(hasKey: boolean, source: string, plain: number): Finding {
  const many = `${plain} subscription${plain === 1 ? '' : 's'}`
  if (!hasKey && plain === 0)
    return ok(
      'secrets',
      source,
      'There is no key to encrypt channel secrets, and no subscription needs one yet.',
    )
  if (!hasKey)
    return warning(
      'secrets',
      source,
      `There is no key, so channel secrets are plain text in the database (${many}).`,
      'Set SIGNALBOX_SECRET_KEY, such as `openssl rand -base64 32` prints, then run `signalbox monitor reseal`.',
    )
  if (plain === 0) return ok('secrets', source, 'Channel secrets are encrypted in the database.')
  return warning(
    'secrets',
    source,
    `The channel secrets of ${many} are plain text in the database: they were stored before there was a key.`,
    'Run `signalbox monitor reseal`.',
  )
}

/** The secrets of a server's channels. Whether the server has a key shows only by what it has sealed. */
export function judgeServedSecrets(
  url: string,
  channels: readonly { readonly secrets: 'plain' | 'sealed' | 'unreadable' }[],
): readonly Finding[] {
  if (channels.length === 0) return []
  const plain = channels.filter(({ secrets }) => secrets === 'plain').length
  if (plain === 0) return [ok('secrets', url, 'Channel secrets are encrypted in the database.')]
  return [
    warning(
      'secrets',
      url,
      `The channel secrets of ${plain} subscription${plain === 1 ? '' : 's'} are plain text in the database.`,
      'Start the server with SIGNALBOX_SECRET_KEY, then run `signalbox monitor reseal` with the same key and --database.',
    ),
  ]
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
    message ?? 'The server has no key to decrypt its channel.',
    'Give the server the key (SIGNALBOX_SECRET_KEY; separate several by commas).',
  )
}
