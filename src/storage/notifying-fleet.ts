import type { FleetStore, fleetTopic } from '../dispatch/cluster/fleet-store.ts'
import type { BackendBell } from './backend.ts'

/** A board that rings its bell after every write of which something took. */
export function createRingingFleet(fleet: FleetStore, bell: Pick<BackendBell, 'ring'>): FleetStore {
  return {
    read: (since, limit) => fleet.read(since, limit),
    find: (kind, key) => fleet.find(kind, key),
    prune: (limit, olderThanMs) => fleet.prune(limit, olderThanMs),
    async write(writes) {
      if (writes.length === 0) return []
      const versions = await fleet.write(writes)
      if (versions.some((version) => version !== null)) bell.ring(boardTopic)
      return versions
    },
  }
}

/** Rung when a board was written to. */
export const boardTopic: typeof fleetTopic = 'fleet'
