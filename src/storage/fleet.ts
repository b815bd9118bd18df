import type { FleetStore, fleetTopic } from '../dispatch/cluster/fleet-store.ts'
import type { BackendNotifier } from './backend.ts'

/** Woken after a write to the cluster state. */
export const boardTopic: typeof fleetTopic = 'fleet'

/** A fleet store that wakes its listeners after each write that took effect. */
export function createNotifyingFleet(fleet: FleetStore, notifier: Pick<BackendNotifier, 'wake'>): FleetStore {
  return {
    read: (since, limit) => fleet.read(since, limit),
    find: (kind, key) => fleet.find(kind, key),
    prune: (limit, olderThanMs) => fleet.prune(limit, olderThanMs),
    async write(writes) {
      const versions = await fleet.write(writes)
      if (versions.some((version) => version !== null)) notifier.wake(boardTopic)
      return versions
    },
  }
}

/** Whether what a reader knows that has read up to `since` is void. */
export function isFleetReset(
  since: number,
  { version, forgotten }: { readonly version: number; readonly forgotten: number },
): boolean {
  return since > 0 && (since < forgotten || since > version)
}
