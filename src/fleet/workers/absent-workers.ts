import { SignalboxError } from '../../core/errors.ts'
import type { WorkerStore } from './worker-store.ts'

/** The store of jobs that were created without a worker store. */
export const absentWorkers: WorkerStore = {
  join: refuseAbsent,
  renew: refuseAbsent,
  wanted: refuseAbsent,
  leave: refuseAbsent,
  list: refuseAbsent,
  find: refuseAbsent,
  want: refuseAbsent,
  readyKinds: refuseAbsent,
  prune: refuseAbsent,
}

async function refuseAbsent(): Promise<never> {
  throw new SignalboxError('conflict', 'There is no store of workers here; use the jobs of a box.')
}
