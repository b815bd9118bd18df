import type { Added, ClaimedRecord, NewJob } from '../job-store.ts'
import type { RunOutcome } from './telemetry.ts'

/**
 * Counts what happens to jobs in this process. It is told of each job, so its calls cost a few additions, never wait
 * and never throw. A box whose store is a server has none: there the server counts.
 */
export interface JobActivity {
  /** Jobs were added. In a caller's transaction they are counted before its commit. */
  added(jobs: readonly Pick<NewJob, 'id' | 'queue' | 'kind'>[], answers: readonly Added[]): void
  /** No worker took these queues before that instant of the store. */
  unattended(queues: readonly string[], until: number): void
  /** An attempt begins. */
  started(job: StartedJob): void
  /** An attempt ended so, and that was written. `ranMs` is null where it is not known. */
  ended(job: Pick<ClaimedRecord, 'queue' | 'kind'>, outcome: RunOutcome, ranMs: number | null): void
  /** A job that did not run was cancelled. */
  cancelled(job: Pick<ClaimedRecord, 'queue' | 'kind'>): void
}

/** What is counted of an attempt that begins. */
export type StartedJob = Pick<
  ClaimedRecord,
  'queue' | 'kind' | 'attempt' | 'meta' | 'limited' | 'runAt' | 'startedAt'
>
