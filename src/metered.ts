import type { Contention, LockWaits } from './contention/index.ts'
import type { LockKey, LockStore } from './locks/index.ts'
import type { Backend } from './storage/open.ts'

type Stores = ReturnType<Backend['within']>
type Standing = Awaited<ReturnType<LockStore['acquire']>>['standing']

/**
 * Measures a backend: every call of its stores counts as a wait of the command that made it, and waits for locks are
 * recorded by key. Results pass unchanged.
 */
export function meterBackend(backend: Backend, namespace: string, contention: Contention): Backend {
  if (!contention.enabled) return backend
  const meter = (stores: Stores, name: string): Stores => meterStores(stores, name, contention)
  return {
    ...backend,
    ...meter(backend, namespace),
    tokens: contention.store(backend.tokens, 'tokens'),
    get warnings() {
      return backend.warnings
    },
    within: (name) => meter(backend.within(name), name),
  }
}

function meterStores(stores: Stores, namespace: string, contention: Contention): Stores {
  const { locks, ownGuards, keyed } = stores
  return {
    jobs: contention.store(stores.jobs, 'jobs'),
    logs: contention.store(stores.logs, 'logs'),
    attempts: contention.store(stores.attempts, 'attempts'),
    schedules: contention.store(stores.schedules, 'schedules'),
    dependencies: contention.store(stores.dependencies, 'dependencies'),
    locks: contention.store(meterLocks(locks, namespace, contention.keys), 'locks'),
    guards: contention.store(stores.guards, 'guards'),
    ...(ownGuards && { ownGuards: contention.store(ownGuards, 'guards') }),
    monitor: contention.store(stores.monitor, 'monitor'),
    audit: contention.store(stores.audit, 'audit'),
    series: contention.store(stores.series, 'series'),
    cluster: contention.store(stores.cluster, 'fleet'),
    workers: contention.store(stores.workers, 'workers'),
    notifier: stores.notifier,
    keyed: (key) => ({ jobs: contention.store(keyed(key).jobs, 'jobs') }),
  }
}

/** Records holders and waiters from the answers of the store. */
function meterLocks(store: LockStore, namespace: string, waits: LockWaits): LockStore {
  const keyOf = ({ operation, resource }: LockKey) => ({ namespace, operation, resource })

  function stands(
    key: LockKey,
    { node, requestId }: { readonly node: string; readonly requestId: string },
    standing: Standing | undefined,
  ): void {
    if (standing?.status === 'queued') waits.queued(keyOf(key), node, requestId)
    else if (standing?.status === 'granted') waits.granted(keyOf(key), node, requestId)
    else waits.left(keyOf(key), node, requestId)
    if (standing?.status === 'refused') waits.heldBy(keyOf(key), standing.holder?.node ?? null)
  }

  return {
    // Without async: each lock takes one of these calls, and each promise adds to its time.
    acquire: (key, ask, times) =>
      store.acquire(key, ask, times).then((answer) => {
        stands(key, ask, answer.standing)
        return answer
      }),
    async keep(key, who, options, times) {
      const answer = await store.keep(key, who, options, times)
      stands(key, who, answer.standing)
      return answer
    },
    release: (key, who, end, times) =>
      store.release(key, who, end, times).then((answer) => {
        if (answer.released) waits.released(keyOf(key), answer.released.next)
        return answer
      }),
    async leave(key, who, times) {
      const answer = await store.leave(key, who, times)
      if (answer.left === true) waits.left(keyOf(key), who.node, who.requestId)
      return answer
    },
    async evict(key, who, times) {
      const answer = await store.evict(key, who, times)
      if (answer.evicted) waits.left(keyOf(key), who.node, who.requestId)
      return answer
    },
    async inspect(key, limit) {
      const queue = await store.inspect(key, limit)
      if (queue) waits.heldBy(keyOf(key), queue.holder?.node ?? null)
      return queue
    },
    fail: (key, who, value, times) => store.fail(key, who, value, times),
    renew: (key, who, terms, times) => store.renew(key, who, terms, times),
    shorten: (key, who, toMs, times) => store.shorten(key, who, toMs, times),
    list: (query) => store.list(query),
    findWaitingHolders: (keys) => store.findWaitingHolders(keys),
    sweep: (limit, times) => store.sweep(limit, times),
  }
}
