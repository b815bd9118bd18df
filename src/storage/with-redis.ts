import { SignalboxError } from '../core/errors.ts'
import type { Backend, BackendNotifier, BackendOptions, Stores } from './backend.ts'
import { clusterTopic } from './cluster-state.ts'
import { withDriver } from './driver.ts'
import type { RedisStores } from './redis/index.ts'

/**
 * A backend that keeps its locks, guards and cluster state in Redis, and everything else in SQL. Its notifier sends
 * wake-ups of locks and of the cluster state through Redis, so that every process on that Redis hears them.
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
    cluster: own.cluster,
    notifier: splitNotifier(stores.notifier, own.notifier),
    keyed: (key) => stores.keyed(key),
  })
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= Promise.allSettled([redis.close(), backend.close()]).then(throwFirst)
    return closed
  }
  return {
    ...compose(backend, redis),
    name: backend.name,
    tokens: backend.tokens,
    migrator: backend.migrator,
    traits: backend.traits,
    // Both may find more or fewer warnings on a later connection.
    get warnings() {
      return [...backend.warnings, ...redis.warnings]
    },
    pruneKeys: (limit) => backend.pruneKeys(limit),
    subscribedNamespaces: (limit) => backend.subscribedNamespaces(limit),
    scheduledNamespaces: (limit) => backend.scheduledNamespaces(limit),
    blockedNamespaces: (limit) => backend.blockedNamespaces(limit),
    queuedNamespaces: (queue, limit) => backend.queuedNamespaces(queue, limit),
    // Redis has the cluster state.
    dispatchedNamespaces: (limit) => redis.dispatchedNamespaces(limit),
    within: (name) => compose(backend.within(name), redis.within(name)),
    time: () => backend.time(),
    async ping() {
      await Promise.all([backend.ping(), redis.ping()])
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Checks that a value is the address of a Redis; otherwise throws `invalid_argument`. */
export function checkRedisUrl(name: string, url: unknown): string {
  if (typeof url === 'string' && /^rediss?:\/\//.test(url) && URL.canParse(url)) return url
  // Do not show the address: it may contain a password.
  throw new SignalboxError('invalid_argument', `${name} must be a redis:// or rediss:// URL.`, {
    details: { option: name },
  })
}

function splitNotifier(own: BackendNotifier, redis: BackendNotifier): BackendNotifier {
  const isInRedis = (topic: string) => topic === clusterTopic || topic.startsWith('locks.')
  return {
    wake: (topic) => (isInRedis(topic) ? redis : own).wake(topic),
    // For transactions of SQL. Data in Redis belongs to no transaction.
    ...(own.wakeAtCommit && { wakeAtCommit: own.wakeAtCommit }),
    ...(own.hearsOthers && { hearsOthers: own.hearsOthers }),
    listen(topics, heard) {
      const inRedis = topics.filter(isInRedis)
      const others = topics.filter((topic) => !isInRedis(topic))
      const stops = [
        ...(inRedis.length > 0 ? [redis.listen(inRedis, heard)] : []),
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
