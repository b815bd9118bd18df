import type { ClusterStore, clusterTopic as topic } from '../dispatch/cluster/cluster-store.ts'
import type { BackendNotifier } from './backend.ts'

/** The topic to wake after a write to the cluster state. */
export const clusterTopic: typeof topic = 'fleet'

/** A cluster state that wakes its listeners after each write that took effect. */
export function createNotifyingClusterStore(
  store: ClusterStore,
  notifier: Pick<BackendNotifier, 'wake'>,
): ClusterStore {
  return {
    read: (since, limit) => store.read(since, limit),
    find: (kind, key) => store.find(kind, key),
    prune: (limit, olderThanMs) => store.prune(limit, olderThanMs),
    async write(writes) {
      const versions = await store.write(writes)
      if (versions.some((version) => version !== null)) notifier.wake(clusterTopic)
      return versions
    },
  }
}

/** Whether a reader that has read up to `since` must start again from nothing. */
export function isClusterReset(
  since: number,
  { version, forgotten }: { readonly version: number; readonly forgotten: number },
): boolean {
  return since > 0 && (since < forgotten || since > version)
}
