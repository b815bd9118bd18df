import { SignalboxError } from '../core/errors.ts'
import { isSealed, showSealed, whySealed } from './encryption/sealed-text.ts'
import type { ClaimedJob, Job, JobError } from './job.ts'
import { decodeMeta } from './job-facts.ts'
import type { ClaimedRecord, JobRecord } from './job-store.ts'
import { decodeBackoff } from './lifecycle.ts'

/**
 * Turns stored records into jobs. Showing a damaged row never throws. Running it throws `undecodable`, and the worker
 * writes that as the error of the dead job. A sealed payload is shown as sealed. With `passesSealed` it stays as
 * stored, for a caller that may have the key.
 */
export function decodeJob(record: JobRecord, passesSealed = false): Job {
  const job = outline(record, passesSealed)
  if (isSealed(record.payload) && !passesSealed) return { ...job, payload: showSealed(record) }
  const payload = tryParse(record.payload)
  if (payload.ok) return { ...job, payload: payload.value }
  return { ...job, payload: null, error: job.error ?? describeUndecodable() }
}

/** Throws `undecodable`, `payload_sealed` or `seal_broken` when the payload cannot be read. */
export function decodeClaimed(record: ClaimedRecord, passesSealed = false): ClaimedJob {
  const { token, leaseEndsAt, handBackCount, snoozeCount } = record
  return {
    ...outline(record, passesSealed),
    payload: decodePayload(record, passesSealed),
    fence: record.fence ?? null,
    snoozeCount,
    trace: decodeMeta(record.meta).trace,
    // These come last, so that a shell script finds them behind the payload.
    token,
    leaseEndsAt,
    handBackCount,
  }
}

/** Throws `undecodable`, `payload_sealed` or `seal_broken` when the payload cannot be read. */
export function decodePayload(record: JobRecord, passesSealed = false): unknown {
  if (isSealed(record.payload) && !passesSealed) throw whySealed(record)
  const parsed = tryParse(record.payload)
  if (!parsed.ok) throw undecodable(record.id)
  return parsed.value
}

function outline(record: JobRecord, passesSealed: boolean): Omit<Job, 'payload'> {
  const { id, queue, kind, priority, uniqueKey, state, attempt, maxAttempts, runAt, createdAt } = record
  const { startedAt, finishedAt, workerId, timeoutMs, cancelRequested, cancelIgnored } = record
  const { trace: _, onFailure: __, ...facts } = decodeMeta(record.meta)
  return {
    ...{ id, queue, kind, priority, uniqueKey, state, attempt, maxAttempts, runAt, createdAt },
    ...{ startedAt, finishedAt },
    result: decodeResult(record, passesSealed),
    error: decodeError(record.error),
    workerId,
    backoff: decodeBackoff(record.backoff),
    timeoutMs,
    ...facts,
    cancelRequested,
    cancelIgnored,
  }
}

function decodeResult(record: JobRecord, passesSealed: boolean): unknown {
  const { result: text } = record
  if (text === null) return null
  if (isSealed(text) && !passesSealed) return showSealed(record)
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
    `The payload kept for job "${id}" is not JSON, so no handler can run it. Repair the row and retry the job, or cancel it.`,
  )
}
