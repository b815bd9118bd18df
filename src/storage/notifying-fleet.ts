import type { FleetStore, fleetTopic } from '../dispatch/cluster/fleet-store.ts'
import type { BackendNotifier } from './backend.ts'

/** A board that wakes its listeners after every write of which something took. */
export function createNotifyingFleet(fleet: FleetStore, notifier: Pick<BackendNotifier, 'wake'>): FleetStore {
  return {
    read: (since, limit) => fleet.read(since, limit),
    find: (kind, key) => fleet.find(kind, key),
    prune: (limit, olderThanMs) => fleet.prune(limit, olderThanMs),
    async write(writes) {
      if (writes.length === 0) return []
      const versions = await fleet.write(writes)
      if (versions.some((version) => version !== null)) notifier.wake(boardTopic)
      return versions
    },
  }
}

/** Woken when a board was written to. */
export const boardTopic: typeof fleetTopic = 'fleet'
