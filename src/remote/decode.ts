import type { WireClaimedJob, WireJob } from '../client/index.ts'
import type { ClaimedRecord, JobRecord } from '../jobs/index.ts'

/** Jobs as the server shows them, as the records that jobs ask of a store. */

export function decodeRecord(job: WireJob): JobRecord {
  return {
    ...job,
    payload: JSON.stringify(job.payload ?? null),
    backoff: JSON.stringify(job.backoff),
    result: textOrNull(job.result),
    error: textOrNull(job.error),
    // Not shown of a job that one only looks at; the server keeps both and judges by them.
    freeCount: 0,
    leaseEndsAt: null,
  }
}

export function decodeClaimedRecord(job: WireClaimedJob): ClaimedRecord {
  const { token, leaseEndsAt, freeCount } = job
  return { ...decodeRecord(job), token, leaseEndsAt, freeCount }
}

function textOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value)
}
