import type { ListedToken, Token } from '../../access/index.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { showCount } from '../../core/job-words.ts'
import type { QueueStats } from '../../jobs/index.ts'
import type { MonitorProblems } from '../../monitor/index.ts'
import type { ResolvedConfig } from '../config/config.ts'
import { nameOfDatabase } from '../config/value-kinds.ts'
import { showSpan } from '../print.ts'

/**
 * Judges the configuration itself. `hasTokens`: whether the store has a live token; undefined: unknown.
 */
export function judgeConfiguration(
  { values, sources, secrets }: Pick<ResolvedConfig, 'values' | 'sources' | 'secrets'>,
  hasTokens: boolean | undefined,
): readonly Finding[] {
  const { host, allowPrivate, database, redis } = values
  const findings = [...judgeBind(host, whereOf('host', sources.host), secrets.length > 0 || hasTokens)]
  if (allowPrivate.length > 0)
    findings.push(
      about('channels', sources.allowPrivate).warning(
        `Notifications may go to private addresses: ${allowPrivate.join(', ')}.`,
        'Clients that can subscribe can make the server call these addresses. Keep the list short.',
      ),
    )
  if (database.startsWith('memory:'))
    findings.push(
      about('durability', sources.database).problem(
        'memory: loses all data when the process ends.',
        'Use sqlite:FILE, postgres://… or mysql://… for anything that matters.',
      ),
    )
  if (redis?.startsWith('redis:') && !isLoopback(new URL(redis).hostname))
    findings.push(
      about('tls', sources.redis).warning(
        `${nameOfDatabase(redis)} is another machine, and the connection is not encrypted.`,
        'Use rediss://, or be sure that no other machine is on that network.',
      ),
    )
  return findings
}

function judgeBind(host: string, source: string, hasToken: boolean | undefined): readonly Finding[] {
  if (isLoopback(host)) {
    const who = hasToken ? ', and a token is required' : ', so no token is required'
    return [about('bind', source).ok(`Only this machine can reach ${host}${who}.`)]
  }
  const plain = about('tls', source).warning(
    `Other machines can reach ${host} over plain HTTP: tokens and jobs can be read on the network.`,
    'Set --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS.',
  )
  return [judgeAccess(host, source, hasToken), plain]
}

function judgeAccess(host: string, source: string, hasToken: boolean | undefined): Finding {
  const bind = about('bind', source)
  if (hasToken) return bind.ok(`Other machines can reach ${host} with a token.`)
  const advice =
    'Create a token with `signalbox token create`, set SIGNALBOX_TOKEN or --token-file, or listen on 127.0.0.1.'
  return hasToken === undefined
    ? bind.warning(
        `Other machines could reach ${host}. It is unknown whether there is a token; without one, serve refuses to start.`,
        advice,
      )
    : bind.problem(`Other machines could reach ${host} without a token, so serve refuses to start.`, advice)
}

/** The source of a value for operators; for a default, the setting itself. */
export function whereOf(name: string, source: string): string {
  return source === 'default' ? name : source
}

/** Whether an address or `localhost` is this machine alone. */
export function isLoopback(host: string): boolean {
  const bare = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  return bare === 'localhost' || bare === '::1' || /^(::ffff:)?127\./.test(bare)
}

/** The longest wait of a ready job before its queue counts as behind; the dashboard has the same limit. */
const behindMs = 60_000
/** More ended jobs than this need a retention. */
export const manyEnded = 10_000

/** Queues with dead jobs, paused queues with ready jobs, and queues that are behind. */
export function judgeQueues(queues: readonly QueueStats[], now: number): readonly Finding[] {
  const findings = queues.flatMap((line) => judgeQueue(line, now))
  const words = `${queues.length} checked: none has dead jobs, is behind, or is paused with ready jobs.`
  return findings.length > 0 ? findings : [about('queues', 'queues').ok(words)]
}

function judgeQueue(line: QueueStats, now: number): Finding[] {
  const { queue, dead, paused, ready, oldestReadyAt } = line
  const { warning } = about('queues', queue)
  const findings: Finding[] = []
  if (dead > 0)
    findings.push(
      warning(
        `${showCount(line, dead)} of its jobs ${dead === 1 ? 'is' : 'are'} dead.`,
        `See why with \`signalbox jobs ls --search "queue:${queue} state:dead"\`, then \`signalbox jobs bulk retry\` or \`delete\`.`,
      ),
    )
  if (paused && ready > 0)
    findings.push(
      warning(
        `It is paused with ${showCount(line, ready)} ready job${ready === 1 ? '' : 's'}.`,
        `Resume it with \`signalbox queues resume ${queue}\`.`,
      ),
    )
  if (!paused && oldestReadyAt !== null && now - oldestReadyAt > behindMs)
    findings.push(
      warning(
        `It is behind: ${showCount(line, ready)} ready, the oldest has waited ${showSpan(now - oldestReadyAt)}.`,
        'Start more workers, or check why the running ones claim nothing (their kinds, the limits of the queue).',
      ),
    )
  return findings
}

/** Ended jobs are kept unless a retention is set. `completed`: the least number of completed jobs. */
export function judgeRetention(source: string, retentionMs: number | undefined, completed: number): Finding {
  const { ok, warning } = about('retention', source)
  if (retentionMs !== undefined) return ok(`Ended jobs are deleted after ${showSpan(retentionMs)}.`)
  return completed < manyEnded
    ? ok('Ended jobs are never deleted; there are not many yet.')
    : warning(
        `Ended jobs are never deleted, and at least ${completed} are stored.`,
        'Set --retention, such as 30d.',
      )
}

const soonMs = 7 * 86_400_000

/** Judges the valid tokens. */
export function judgeTokens(tokens: readonly ListedToken[], now: number): readonly Finding[] {
  const live = tokens.filter((token) => token.live)
  const findings = live.flatMap((token) => judgeToken(token, now) ?? [])
  const words = live.length === 0 ? 'There are no tokens.' : `${live.length} are valid, without problems.`
  return findings.length > 0 ? findings : [about('tokens', 'tokens').ok(words)]
}

function judgeToken({ id, name, scope, namespace, expiresAt }: Token, now: number): Finding | undefined {
  const { warning } = about('tokens', `${name} (${id})`)
  if (scope === 'admin' && expiresAt === null)
    return warning(
      `It has the scope admin${namespace === '*' ? ' in every namespace' : ''} and never expires.`,
      `Create one that expires (\`signalbox token create --scope admin --expires 90d\`), then \`signalbox token revoke ${id}\`.`,
    )
  if (expiresAt !== null && expiresAt - now < soonMs)
    return warning(
      `It expires in ${showSpan(Math.max(0, expiresAt - now))}.`,
      'Create another with `signalbox token create` and give it to its user.',
    )
  return undefined
}

/** Judges subscriptions and their secrets. `hasKey`: whether there is a key to seal with. */
export function judgeMonitor(
  { dead, unreadable, plain }: MonitorProblems,
  { hasKey, source }: { readonly hasKey: boolean; readonly source: string },
): readonly Finding[] {
  return [
    judgeSecrets(hasKey, source, plain),
    ...unreadable.map(({ subscription, message }) => judgeUnreadable(subscription, message)),
    ...(dead.length === 0
      ? [about('notifications', 'subscriptions').ok('No dead notifications.')]
      : dead.map(({ subscription, count }) => judgeDead(subscription, count))),
  ]
}

const areSealed = 'Channel secrets are encrypted in the database.'

function judgeSecrets(hasKey: boolean, source: string, plain: number): Finding {
  const { ok, warning } = about('secrets', source)
  const many = `${plain} subscription${plain === 1 ? '' : 's'}`
  if (!hasKey && plain === 0)
    return ok('There is no key to encrypt channel secrets, and no subscription needs one yet.')
  if (!hasKey)
    return warning(
      `There is no key, so channel secrets are plain text in the database (${many}).`,
      'Set SIGNALBOX_SECRET_KEY, such as `openssl rand -base64 32` prints, then run `signalbox monitor reseal`.',
    )
  if (plain === 0) return ok(areSealed)
  return warning(
    `The channel secrets of ${many} are plain text in the database: they were stored before there was a key.`,
    'Run `signalbox monitor reseal`.',
  )
}

/** Judges the secrets of a server's channels. Only sealed channels show that the server has a key. */
export function judgeServedSecrets(
  url: string,
  channels: readonly { readonly secrets: 'plain' | 'sealed' | 'unreadable' }[],
): readonly Finding[] {
  if (channels.length === 0) return []
  const { ok, warning } = about('secrets', url)
  const plain = channels.filter(({ secrets }) => secrets === 'plain').length
  if (plain === 0) return [ok(areSealed)]
  return [
    warning(
      `The channel secrets of ${plain} subscription${plain === 1 ? '' : 's'} are plain text in the database.`,
      'Start the server with SIGNALBOX_SECRET_KEY, then run `signalbox monitor reseal` with the same key and --database.',
    ),
  ]
}

export function judgeDead(subscription: string, count: number): Finding {
  // Subscribers were not notified until an operator replays these notifications.
  return about('notifications', subscription).problem(
    `${count} of its notifications ${count === 1 ? 'is' : 'are'} dead.`,
    'See why with `signalbox monitor notifications --state dead`, then `signalbox monitor replay --dead`.',
  )
}

export function judgeUnreadable(subscription: string, message: string | null): Finding {
  return about('secrets', subscription).problem(
    message ?? 'The server has no key to decrypt its channel.',
    'Give the server the key (SIGNALBOX_SECRET_KEY; separate several by commas).',
  )
}

/** The result of one check: the subject, its place, the finding, and what to do. */
export interface Finding {
  readonly level: Level
  /** The subject of the check: `node`, `bind`, `tls`, `tokens`, `schema`, … */
  readonly check: string
  /** The place: a setting, a token, a queue, a store. */
  readonly subject: string
  /** The finding. */
  readonly text: string
  /** What to do; null when all is well. */
  readonly advice: string | null
}

/** `warning`: it works, but may fail later. `problem`: it does not work, or data is lost or open to others. */
export type Level = 'ok' | 'warning' | 'problem'
export const levels: readonly Level[] = ['ok', 'warning', 'problem']

/** Creates findings about one subject. */
export function about(check: string, subject: string): FindingsAbout {
  return {
    ok: (text) => ({ level: 'ok', check, subject, text, advice: null }),
    warning: (text, advice) => ({ level: 'warning', check, subject, text, advice }),
    problem: (text, advice) => ({ level: 'problem', check, subject, text, advice }),
  }
}

export interface FindingsAbout {
  ok(text: string): Finding
  warning(text: string, advice: string): Finding
  problem(text: string, advice: string): Finding
}

/**
 * Shows an error without secrets. Signalbox's own messages have none. Of other errors only the code is shown, because
 * their messages may quote an address with its password.
 */
export function reasonOf(error: unknown): string {
  if (isSignalboxError(error)) {
    const code = codeOf(error.cause)
    return code === undefined || error.message.includes(code) ? error.message : `${error.message} (${code})`
  }
  return codeOf(error) ?? 'an unexpected error'
}

/** Adds a full stop if there is none. */
export function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** The code of an error: such as ECONNREFUSED, 28P01 or, at the start of a message of Redis, WRONGPASS. */
function codeOf(error: unknown): string | undefined {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown }
  if (typeof code === 'string' && /^[\w-]{1,40}$/.test(code)) return code
  return typeof message === 'string' ? /^[A-Z]{4,20}(?= )/.exec(message)?.[0] : undefined
}
