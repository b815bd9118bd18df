import { Batcher } from '../../core/batcher.ts'
import { isSignalboxError } from '../../core/errors.ts'
import type { Added, JobStore, NewJob } from '../job-store.ts'
import { topicsOf } from './announcer.ts'

/**
 * Single adds that come while one is being written go together in the next write: one commit instead of many, and
 * no add waits longer than for the write before. A lone add is written at once.
 */
export function createAddBatcher(store: Pick<JobStore, 'add'>): Batcher<NewJob, Added> {
  return new Batcher({
    maxItems: 1_000,
    maxInFlight: 2,
    start: queueMicrotask,
    isItemError,
    run: (jobs) => store.add(jobs, undefined, topicsOf(jobs)),
  })
}

/** Whether it may be about one of several jobs, and says that nothing was written. */
function isItemError(error: unknown): boolean {
  return (
    isSignalboxError(error) &&
    ['invalid_argument', 'seal_failed', 'conflict', 'too_large'].includes(error.code)
  )
}
