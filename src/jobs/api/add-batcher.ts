import { isSignalboxError } from '../../core/errors.ts'
import type { Added, JobStore, NewJob } from '../job-store.ts'
import { topicsOf } from './announcer.ts'

/**
 * Single adds that come while one is being written go together in the next write: one commit instead of many, and
 * nobody waits longer than for the write before. A lone add is written at once.
 */
export interface AddBatcher {
  /** Nothing is being written or waits to be. */
  readonly isIdle: boolean
  add(job: NewJob): Promise<Added>
}

interface Waiting {
  readonly job: NewJob
  readonly resolve: (added: Added) => void
  readonly reject: (error: unknown) => void
}

const maxBatch = 1_000
const maxWrites = 2

/** Whether it may be about one of several jobs, and says that nothing was written. */
function isOfOne(error: unknown): boolean {
  return (
    isSignalboxError(error) &&
    ['invalid_argument', 'seal_failed', 'conflict', 'too_large'].includes(error.code)
  )
}

export function createAddBatcher(store: Pick<JobStore, 'add'>): AddBatcher {
  let waiting: Waiting[] = []
  let writes = 0
  let isStarting = false

  async function write(): Promise<void> {
    isStarting = true
    writes++
    // A microtask later, so that adds made in one go also go in one write.
    await null
    isStarting = false
    while (waiting.length > 0) {
      const batch = waiting.slice(0, maxBatch)
      waiting = waiting.slice(maxBatch)
      await writeBatch(batch)
    }
    writes--
  }

  async function writeBatch(batch: readonly Waiting[]): Promise<void> {
    try {
      const jobs = batch.map(({ job }) => job)
      const added = await store.add(jobs, undefined, topicsOf(jobs))
      for (const [index, { resolve }] of batch.entries()) resolve(added[index]!)
    } catch (error) {
      const [only] = batch
      if (batch.length === 1) only!.reject(error)
      // What is wrong with one is nothing to the others; and nothing was written.
      else if (isOfOne(error)) for (const one of batch) await writeBatch([one])
      else for (const { reject } of batch) reject(error)
    }
  }

  return {
    get isIdle() {
      return writes === 0
    },
    add: (job) =>
      new Promise((resolve, reject) => {
        waiting.push({ job, resolve, reject })
        if (writes < maxWrites && !isStarting) void write()
      }),
  }
}
