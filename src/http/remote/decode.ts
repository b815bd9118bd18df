import type { ClaimedRecord, JobRecord } from '../../jobs/index.ts'
import type { WireClaimedJob, WireJob } from '../client/index.ts'

/** Jobs as the server shows them, as the records that jobs ask of a store. */

export function decodeRecord({ tags, schedule, limitKey, lock, ...job }: WireJob): JobRecord {
  return {
    ...job,
    payload: JSON.stringify(job.payload ?? null),
    backoff: JSON.stringify(job.backoff),
    meta: encodeMeta({ tags, schedule, limitKey, lock }),
    result: textOrNull(job.result),
    error: textOrNull(job.error),
    // Not shown of a job that one only looks at; the server keeps both and judges by them.
    handBackCount: 0,
    snoozeCount: 0,
    leaseEndsAt: null,
  }
}

export function decodeClaimedRecord(job: WireClaimedJob): ClaimedRecord {
  const { token, leaseEndsAt, handBackCount, snoozeCount } = job
  const { trace, fence, ...plain } = job
  const record = {
    ...{ ...decodeRecord(plain), token, leaseEndsAt, handBackCount, snoozeCount },
    ...(fence === null || fence === undefined ? {} : { fence }),
  }
  if (trace === null) return record
  const known = record.meta === null ? {} : (JSON.parse(record.meta) as object)
  return { ...record, meta: JSON.stringify({ ...known, trace }) }
}

/** A server of an older version has less to show. */
function encodeMeta({
  tags,
  schedule,
  limitKey,
  lock,
}: Partial<Pick<WireJob, 'tags' | 'schedule' | 'limitKey' | 'lock'>>): string | null {
  const said = {
    ...(limitKey && { limitKey }),
    ...(lock && { lock }),
    ...(tags !== undefined && tags.length > 0 && { tags }),
    ...(schedule && { schedule: schedule.name, slotAt: schedule.slotAt }),
  }
  return Object.keys(said).length === 0 ? null : JSON.stringify(said)
}

function textOrNull(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value)
}
