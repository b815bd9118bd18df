import type { Meter } from '../../core/meter.ts'
import type { ClusterStore } from '../../dispatch/cluster/cluster-store.ts'
import type { LockStore } from '../../locks/index.ts'
import type { GuardStore } from '../../once/guard-store.ts'
import type { BackendNotifier, Traits } from '../backend.ts'
import { createNotifyingClusterStore } from '../cluster-state.ts'
import { createRedisClusterState, listDispatched } from './cluster-state.ts'
import { Connection } from './connection.ts'
import { createGuardSteps, createRedisGuards } from './guards.ts'
import { createRedisLocks } from './locks.ts'
import { RedisNotifiers } from './notifier.ts'
import { Recovery } from './recovery.ts'
import { Stepper } from './stepper.ts'

/** The options of a Redis. */
export interface RedisOptions {
  readonly namespace: string
  /** Measures how long calls take, and wait for a connection. @default no meter */
  readonly meter?: Meter | undefined
}

/** The stores of one namespace in Redis. */
export interface RedisStores {
  readonly locks: LockStore
  readonly guards: GuardStore
  readonly cluster: ClusterStore
  readonly notifier: BackendNotifier
}

/**
 * A Redis with locks, guards and the cluster state. It cannot commit together with other data, so it is never the only
 * store.
 */
export interface RedisBackend extends RedisStores, AsyncDisposable {
  readonly name: string
  readonly traits: Traits
  /** Warnings about unsafe settings of the server. */
  readonly warnings: readonly string[]
  /** The stores of another namespace, on the same connections. Cheap to create; they need no close. */
  within(namespace: string): RedisStores
  /** Up to `limit` namespaces with nodes or with tasks for nodes. */
  dispatchedNamespaces(limit: number): Promise<readonly string[]>
  /** Checks that Redis answers. Throws `store_unavailable` or `store_busy`. */
  ping(): Promise<void>
  /** Closes all connections. Later calls fail with `closed`. Safe to call twice. */
  close(): Promise<void>
}

/**
 * Opens a Redis: `redis://user:password@host:6379/0`, or `rediss://` for TLS. Refuses a Redis that removes keys when
 * its memory is full (`engine_unsupported`).
 */
export async function openRedis(url: string, { namespace, meter }: RedisOptions): Promise<RedisBackend> {
  const recovery = new Recovery()
  const connection = new Connection(url, recovery, meter)
  await connection.open()
  const stepper = new Stepper(connection, () => recovery.isClustered)
  const steps = createGuardSteps(connection, recovery.isClustered)
  const notifiers = new RedisNotifiers(url, connection)
  const within = (name: string): RedisStores => {
    const notifier = notifiers.within(name)
    return {
      locks: createRedisLocks({ connection, stepper, recovery }, name),
      guards: createRedisGuards({ connection, steps }, name),
      cluster: createNotifyingClusterStore(createRedisClusterState({ connection, recovery }, name), notifier),
      notifier,
    }
  }
  const close = async () => {
    notifiers.close()
    await connection.close()
  }
  return {
    ...within(namespace),
    name: 'redis',
    traits: { transactions: false, remoteWakeUps: true },
    warnings: recovery.warnings,
    within,
    dispatchedNamespaces: (limit) => listDispatched({ connection, recovery }, limit),
    async ping() {
      await connection.send(['PING'], ['PING'])
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}
