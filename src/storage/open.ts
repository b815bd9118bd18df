import { SignalboxError } from '../core/errors.ts'
import type { Backend, BackendOptions } from './backend.ts'
import { withDriver } from './driver.ts'
import { checkRedisUrl, withRedis } from './with-redis.ts'

export type { Backend, BackendOptions } from './backend.ts'

/**
 * The one place that chooses an engine, by the URL's scheme. Each is loaded only when asked for, so nobody needs a
 * driver for a database they do not use.
 */
export async function openBackend(url: string, { redis, ...options }: BackendOptions): Promise<Backend> {
  if (redis === undefined) return openEngine(url, options)
  const address = checkRedisUrl('redis', redis)
  const backend = await openEngine(url, options)
  try {
    return await withRedis(backend, address, options)
  } catch (error) {
    await backend.close()
    throw error
  }
}

async function openEngine(url: string, options: BackendOptions): Promise<Backend> {
  const [scheme = ''] = /^[a-z][a-z0-9+.-]*(?=:)/.exec(url) ?? []
  switch (scheme) {
    case 'memory':
      return (await import('./memory/index.ts')).openMemory(options)
    case 'sqlite':
      return (await import('./sqlite/index.ts')).openSqlite(url, options)
    case 'postgres':
    case 'postgresql':
      return (await withDriver('pg', () => import('./postgres/index.ts'))).openPostgres(url, options)
    case 'mysql':
    case 'mariadb':
      return (await withDriver('mysql2', () => import('./mariadb/index.ts'))).openMariadb(url, options)
    default:
      // The URL itself is not shown: it may hold a password.
      throw new SignalboxError(
        'invalid_argument',
        `There is no engine for "${scheme}:". Use memory:, sqlite:FILE, postgres://… or mysql://… (MariaDB).`,
      )
  }
}
