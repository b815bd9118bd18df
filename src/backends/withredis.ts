import { SignalboxError } from '../core/errors.ts'
import type { Backend, BackendBell, BackendOptions, Stores } from './backend.ts'
import { withDriver } from './driver.ts'
import type { RedisStores } from './redis/index.ts'

/**
 * A backend whose locks and guards are kept by Redis, while all else stays where it is. The one bell rings there too: what
 * concerns locks goes to Redis, so that it is heard by every process on it.
 */
export async function withRedis(
  backend: Backend,
  url: string,
  { namespace, guards = 'redis', meter }: Pick<BackendOptions, 'namespace' | 'guards' | 'meter'>,
): Promise<Backend> {
  const { openRedis } = await withDriver('@redis/client', () => import('./redis/index.ts'))
  const redis = await openRedis(url, { namespace, meter })
  const compose = (stores: Stores, own: RedisStores): Stores => ({
    ...stores,
    locks: own.locks,
    guards: guards === 'sql' ? stores.guards : own.guards,
    ownGuards: stores.guards,
    bell: splitBell(stores.bell, own.bell),
    keyed: (key) => stores.keyed(key),
  })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= Promise.allSettled([redis.close(), backend.close()]).then(throwFirst)
    return closed
  }
  return {
    name: backend.name,
    tokens: backend.tokens,
    migrator: backend.migrator,
    traits: backend.traits,
    warnings: [...backend.warnings, ...redis.warnings],
    pruneKeys: (limit) => backend.pruneKeys(limit),
    subscribedNamespaces: (limit) => backend.subscribedNamespaces(limit),
    ...compose(backend, redis),
    within: (name) => compose(backend.within(name), redis.within(name)),
    async ping() {
      await Promise.all([backend.ping(), redis.ping()])
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Whether it is the address of a Redis; throws `invalid_argument` when it is not. */
export function checkRedisUrl(name: string, url: unknown): string {
  if (typeof url === 'string' && /^rediss?:\/\//.test(url) && URL.canParse(url)) return url
  // Not shown: it may hold a password.
  throw new SignalboxError('invalid_argument', `${name} must be a redis:// or rediss:// URL.`, {
    details: { option: name },
  })
}

function splitBell(own: BackendBell, redis: BackendBell): BackendBell {
  const isOfLocks = (topic: string) => topic.startsWith('locks.')
  return {
    ring: (topic) => (isOfLocks(topic) ? redis : own).ring(topic),
    listen(topics, heard) {
      const ofLocks = topics.filter(isOfLocks)
      const others = topics.filter((topic) => !isOfLocks(topic))
      const stops = [
        ...(ofLocks.length > 0 ? [redis.listen(ofLocks, heard)] : []),
        ...(others.length > 0 ? [own.listen(others, heard)] : []),
      ]
      return () => {
        for (const stop of stops) stop()
      }
    },
  }
}

function throwFirst(results: readonly PromiseSettledResult<unknown>[]): void {
  for (const result of results) if (result.status === 'rejected') throw result.reason
}
