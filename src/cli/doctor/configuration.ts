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
            `Notifications may go to addresses that are not public: ${allowPrivate.join(', ')}.`,
            'A client that may subscribe can make the server call them. Keep the list short.',
          ),
        ]),
    ...judgeStores(database, sources.database, redis, sources.redis),
  ]
}

function judgeBind(host: string, source: string, hasToken: boolean | undefined): readonly Finding[] {
  if (isLoopback(host)) {
    const who = hasToken ? 'and a token is needed' : 'so no token is needed'
    return [ok('bind', source, `Only this machine can reach ${host}, ${who}.`)]
  }
  return [
    judgeAccess(host, source, hasToken),
    warning(
      'tls',
      source,
      `Other machines can reach ${host}, and Signalbox speaks plain HTTP: tokens and jobs can be read on the way.`,
      'Listen on 127.0.0.1 behind a proxy that speaks TLS, or let only the proxy reach this address.',
    ),
  ]
}

function judgeAccess(host: string, source: string, hasToken: boolean | undefined): Finding {
  if (hasToken) return ok('bind', source, `Other machines can reach ${host}, and need a token.`)
  const advice =
    'Make a token with `signalbox token create`, set SIGNALBOX_TOKEN or --token-file, or listen on 127.0.0.1.'
  if (hasToken === undefined)
    return warning(
      'bind',
      source,
      `Other machines could reach ${host}; whether there is a token, without which serve refuses to start, could not be seen.`,
      advice,
    )
  return problem(
    'bind',
    source,
    `Other machines could reach ${host}, and there is no token, so serve refuses to start.`,
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
    'memory: keeps everything in one process, and forgets it when that ends.',
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
