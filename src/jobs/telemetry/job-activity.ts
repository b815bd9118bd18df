import { showWorker, type WorkerStore } from '../../fleet/workers/index.ts'
import type { Added, ClaimedRecord, NewJob } from '../job-store.ts'
import type { RunOutcome } from './telemetry.ts'

/**
 * Counts what happens to jobs in this process. It runs for each job, so its calls cost a few additions, never wait and
 * never throw. A box whose store is a server has none: the server counts.
 */
export interface JobActivity {
  /** Jobs were added. Jobs of a caller's transaction are counted before its commit. */
  added(jobs: readonly Pick<NewJob, 'id' | 'queue' | 'kind'>[], answers: readonly Added[]): void
  /** No worker took jobs of these queues before that instant of the store. */
  unattended(queues: readonly string[], until: number): void
  /** An attempt begins. */
  started(job: StartedJob): void
  /** The store wrote this end of an attempt. `ranMs` is null if unknown. */
  ended(job: Pick<ClaimedRecord, 'queue' | 'kind'>, outcome: RunOutcome, ranMs: number | null): void
  /** A job that did not run was cancelled. */
  cancelled(job: Pick<ClaimedRecord, 'queue' | 'kind'>): void
}

/** The fields of an attempt that are counted at its start. */
export type StartedJob = Pick<
  ClaimedRecord,
  'queue' | 'kind' | 'attempt' | 'meta' | 'limited' | 'runAt' | 'startedAt'
>

/**
 * Counts, before a worker starts, its queues without a live worker. Jobs of these queues that are already due waited
 * because there was no worker. This costs one read for each start. If the read fails, these waits count as waits in the
 * queue.
 */
export async function countUnattended(
  queues: readonly string[],
  { workers, activity }: { readonly workers: Pick<WorkerStore, 'list'>; readonly activity: JobActivity },
): Promise<void> {
  const page = await workers.list({ limit: maxWorkers }).catch(() => undefined)
  if (page === undefined) return
  const { now } = page
  const taken = new Set(
    page.workers
      .map((record) => showWorker(record, now))
      .filter(({ state }) => state === 'running')
      .flatMap((live) => live.queues),
  )
  const unattended = queues.filter((queue) => !taken.has(queue))
  if (unattended.length > 0) activity.unattended(unattended, now)
}

const maxWorkers = 1_000
