import { decodeError } from '../decode-job.ts'
import type { BlockRecord, DependencyStore } from '../dependencies/dependency-store.ts'
import type { JobError } from '../job.ts'
import type { AttemptEnd, AttemptRecord, AttemptStore } from './attempt-store.ts'
import { fingerprintError } from './error-fingerprint.ts'

/** An attempt of a job that failed or was lost. */
export interface JobAttempt {
  /** Tells attempts of a job apart, and rises with each. After a retry, `attempt` begins at 1 again, and this does not. */
  readonly number: number
  readonly attempt: number
  /** `failed`: the job runs again. `dead`: it was the last attempt. `lost`: its lease expired. */
  readonly outcome: AttemptEnd
  readonly workerId: string | null
  /** The release that its worker said it runs; null: none was said. */
  readonly release: string | null
  readonly startedAt: number | null
  readonly endedAt: number
  readonly error: JobError
  /** The group of its error. */
  readonly fingerprint: string
}

/** A time in which a job could not be claimed, because it waited for other jobs or for its lock. */
export type BlockedInterval = BlockRecord

/** What is known of a job beside its own row. */
export interface JobPast {
  readonly attempts: readonly JobAttempt[]
  readonly blocked: readonly BlockedInterval[]
}

/** Reads what happened to a job, for one that is shown alone. */
export async function readPast(
  id: string,
  attempts: Pick<AttemptStore, 'list'> | undefined,
  dependencies: Pick<DependencyStore, 'blocks'> | undefined,
): Promise<JobPast> {
  const [ended = [], blocked = []] = await Promise.all([attempts?.list(id), dependencies?.blocks(id)])
  return { attempts: ended.map(decodeAttempt), blocked }
}

function decodeAttempt(record: AttemptRecord): JobAttempt {
  const { number, attempt, outcome, workerId, release, startedAt, endedAt, kind, error } = record
  return {
    ...{ number, attempt, outcome, workerId, release, startedAt, endedAt },
    error: decodeError(record.shownError ?? error)!,
    fingerprint: fingerprintError(kind, error),
  }
}
