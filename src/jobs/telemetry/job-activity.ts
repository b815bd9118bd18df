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
