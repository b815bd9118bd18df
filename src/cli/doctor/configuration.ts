import type { ResolvedConfig } from '../config/config.ts'
import { nameOfDatabase } from '../config/value-kinds.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

/**
 * What the configuration itself says. `hasTokens`: whether a token in the store is live; undefined where it could not be
 * asked.
 */
export function judgeConfiguration(
  { values, sources, secrets }: Pick<ResolvedConfig, 'values' | 'sources' | 'secrets'>,
  hasTokens: boolean | undefined,
): readonly Finding[] {
  const { host, allowPrivate, database, redis } = values
  return [
    ...judgeBind(host, whereOf('host', sources.host), secrets.length > 0 || hasTokens),
    ...(allowPrivate.length === 0
      ? []
      : [
          warning(
            'channels',
            sources.allowPrivate,
            `Notifications may go to private addresses: ${allowPrivate.join(', ')}.`,
            'Clients that can subscribe can make the server call these addresses. Keep the list short.',
          ),
        ]),
    ...judgeStores(database, sources.database, redis, sources.redis),
  ]
}

function judgeBind(host: string, source: string, hasToken: boolean | undefined): readonly Finding[] {
  if (isLoopback(host)) {
    const who = hasToken ? ', and a token is required' : ', so no token is required'
    return [ok('bind', source, `Only this machine can reach ${host}${who}.`)]
  }
  return [
    judgeAccess(host, source, hasToken),
    warning(
      'tls',
      source,
      `Other machines can reach ${host} over plain HTTP: tokens and jobs can be read on the network.`,
      'Set --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS.',
    ),
  ]
}

function judgeAccess(host: string, source: string, hasToken: boolean | undefined): Finding {
  if (hasToken) return ok('bind', source, `Other machines can reach ${host} with a token.`)
  const advice =
    'Create a token with `signalbox token create`, set SIGNALBOX_TOKEN or --token-file, or listen on 127.0.0.1.'
  if (hasToken === undefined)
    return warning(
      'bind',
      source,
      `Other machines could reach ${host}. It is unknown whether there is a token; without one, serve refuses to start.`,
      advice,
    )
  return problem(
    'bind',
    source,
    `Other machines could reach ${host} without a token, so serve refuses to start.`,
    advice,
  )
}

/** Where a value came from, for people: the setting itself when it has its default. */
export function whereOf(name: string, source: string): string {
  return source === 'default' ? name : source
}

function judgeStores(
  database: string,
  source: string,
  redis: string | undefined,
  redisSource: string,
): readonly Finding[] {
  const memory = problem(
    'durability',
    source,
    'memory: loses all data when the process ends.',
    'Use sqlite:FILE, postgres://… or mysql://… for anything that matters.',
  )
  const open =
    redis?.startsWith('redis:') && !isLoopback(new URL(redis).hostname)
      ? [
          warning(
            'tls',
            redisSource,
            `${nameOfDatabase(redis)} is another machine, and the connection is not encrypted.`,
            'Use rediss://, or be sure that no other machine is on that network.',
          ),
        ]
      : []
  return [...(database.startsWith('memory:') ? [memory] : []), ...open]
}

/** Whether an address or `localhost` is this machine alone. */
export function isLoopback(host: string): boolean {
  const bare = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  return bare === 'localhost' || bare === '::1' || /^(::ffff:)?127\./.test(bare)
}
