import { type Backoff, resolveBackoff } from '../core/backoff.ts'
import { SignalboxError } from '../core/errors.ts'
import type { ClaimedJob, Job, JobError } from './job.ts'
import { backoffDefaults } from './lifecycle.ts'
import type { ClaimedRecord, JobRecord } from './store.ts'

/**
 * Records become jobs here. A row that was damaged, or written by hand, must hold nobody up: showing it never
 * throws, and running it is refused with a reason (`undecodable`), which the worker writes down as the job's death.
 */

export function decodeJob(record: JobRecord): Job {
  const payload = tryParse(record.payload)
  const job = outline(record)
  if (payload.ok) return { ...job, payload: payload.value }
  return { ...job, payload: null, error: job.error ?? describeUndecodable() }
}

/** Throws `undecodable` when the payload cannot be read. */
export function decodeClaimed(record: ClaimedRecord): ClaimedJob {
  const { token, leaseEndsAt, freeCount } = record
  return { ...outline(record), payload: decodePayload(record), token, leaseEndsAt, freeCount }
}

/** Throws `undecodable` when it cannot be read. */
export function decodePayload({ id, payload }: JobRecord): unknown {
  const parsed = tryParse(payload)
  if (!parsed.ok) throw undecodable(id)
  return parsed.value
}

export function decodeBackoff(text: string | null): Backoff {
  if (text === null) return backoffDefaults
  // Only what we wrote ourselves is here. Whatever else it is, the defaults are safe; a wait that is no number would be
  // refused by the store, and with it the verdicts on other jobs in the same write.
  try {
    return resolveBackoff('backoff', JSON.parse(text) as Partial<Backoff>, backoffDefaults)
  } catch {
    return backoffDefaults
  }
}

function outline(record: JobRecord): Omit<Job, 'payload'> {
  const { id, queue, kind, priority, uniqueKey, state, attempt, maxAttempts, runAt, createdAt } = record
  const { startedAt, finishedAt, workerId, timeoutMs, cancelRequested, cancelIgnored } = record
  return {
    id,
    queue,
    kind,
    priority,
    uniqueKey,
    state,
    attempt,
    maxAttempts,
    runAt,
    createdAt,
    startedAt,
    finishedAt,
    result: decodeResult(record.result),
    error: decodeError(record.error),
    workerId,
    backoff: decodeBackoff(record.backoff),
    timeoutMs,
    cancelRequested,
    cancelIgnored,
  }
}

function decodeResult(text: string | null): unknown {
  if (text === null) return null
  const parsed = tryParse(text)
  return parsed.ok ? parsed.value : null
}

export function decodeError(text: string | null): JobError | null {
  if (text === null) return null
  const parsed = tryParse(text)
  const isError = parsed.ok && typeof parsed.value === 'object' && parsed.value !== null
  return isError ? (parsed.value as JobError) : { message: text }
}

type Parsed = { readonly ok: true; readonly value: unknown } | { readonly ok: false }

function tryParse(text: string): Parsed {
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch {
    return { ok: false }
  }
}

function describeUndecodable(): JobError {
  return { code: 'undecodable', message: 'The payload kept for this job is not JSON.' }
}

function undecodable(id: string): SignalboxError {
  return new SignalboxError(
    'undecodable',
    `The payload kept for job "${id}" is not JSON, so no handler can run it. Mend the row and retry the job, or cancel it.`,
  )
}
