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

/** What a Redis is opened with. */
export interface RedisOptions {
  readonly namespace: string
  /** Learns how long calls take, and wait for a connection. @default no meter */
  readonly meter?: Meter | undefined
}

/** What Redis keeps for one namespace. */
export interface RedisStores {
  readonly locks: LockStore
  readonly guards: GuardStore
  readonly cluster: ClusterStore
  readonly notifier: BackendNotifier
}

/** A Redis that keeps locks, guards and the cluster state. It cannot commit with anybody's data, so it is never the only store of a box. */
export interface RedisBackend extends RedisStores, AsyncDisposable {
  readonly name: string
  readonly traits: Traits
  /** Weak settings that were found, in words; empty when all is well. */
  readonly warnings: readonly string[]
  /** The stores of another namespace, on the same connections. Cheap to make, and nothing to close. */
  within(namespace: string): RedisStores
  /** Up to `limit` namespaces that have nodes or tasks for nodes. */
  dispatchedNamespaces(limit: number): Promise<readonly string[]>
  /** Whether Redis answers; throws `store_unavailable` or `store_busy` when it does not. */
  ping(): Promise<void>
  /** Closes all connections; later calls fail with `closed`. Safe to call twice. */
  close(): Promise<void>
}

/**
 * Opens a Redis: `redis://user:password@host:6379/0`, or `rediss://` for TLS. Refuses one that removes keys when its
 * memory is full (`engine_unsupported`).
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
