import type { Room } from './case.ts'

/**
 * Every room that can be measured. Loaded by name, so that a room whose peers are not installed holds up no other.
 */
const rooms: Readonly<Record<string, () => Promise<Room>>> = {
  workqueue: async () => (await import('./modules/work-queue/index.ts')).workqueueRoom,
  jobs: async () => (await import('./modules/jobs/index.ts')).jobsRoom,
  server: async () => (await import('./modules/server/index.ts')).serverRoom,
  locks: async () => (await import('./modules/locks/index.ts')).locksRoom,
  once: async () => (await import('./modules/once/index.ts')).onceRoom,
  monitor: async () => (await import('./modules/monitor/index.ts')).monitorRoom,
  dispatch: async () => (await import('./modules/dispatch/index.ts')).dispatchRoom,
  copy: async () => (await import('./modules/copy/index.ts')).copyRoom,
  dashboard: async () => (await import('./modules/dashboard/index.ts')).dashboardRoom,
}

/** The names `npm run bench -- ROOM` knows. */
export const roomNames: readonly string[] = Object.keys(rooms)

/** The room of that name, or undefined. */
export async function findRoom(name: string): Promise<Room | undefined> {
  return Object.hasOwn(rooms, name) ? rooms[name]!() : undefined
}
