import { SignalboxError } from '../core/errors.ts'

/** Why a job could not be ended, or did not end as its handler meant; and what everyone is told whose token does not hold it. */
export function leaseLost(id: string): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `Job "${id}" is no longer held with this token: it ended, or its lease ran out and was lost. Nothing was written. If it ran out: raise leaseMs, renew sooner, or free the event loop.`,
    { details: { jobId: id } },
  )
}

export function timedOut(id: string, timeoutMs: number): SignalboxError {
  return new SignalboxError('timeout', `Job "${id}" took longer than its time-out of ${timeoutMs} ms.`)
}

export function ackMissing(id: string): SignalboxError {
  return new SignalboxError(
    'ack_missing',
    `The handler of job "${id}" must end it in a transaction, and returned without a committed ack or nack.`,
  )
}

export function rolledBack(id: string): SignalboxError {
  return new SignalboxError(
    'ack_missing',
    `The handler of job "${id}" acked it in its own transaction, which was rolled back or never committed.`,
  )
}

/** Errors of ours after which no further attempt can help, whatever attempts are left. */
const final = new WeakSet<object>()

export function isFinal(error: unknown): boolean {
  return typeof error === 'object' && error !== null && final.has(error)
}

/** `told` is what is wrong with it and where. */
export function unfit(id: string, kind: string, told: string): SignalboxError {
  const error = new SignalboxError(
    'invalid_payload',
    `The payload kept for job "${id}" does not fit the kind "${kind}": ${told}. Mend the schema or the handler and retry the job, or add it anew.`,
    { details: { jobId: id, kind } },
  )
  final.add(error)
  return error
}

export function notFound(id: string): SignalboxError {
  return new SignalboxError('not_found', `There is no job "${id}": it was never added, or it was pruned.`)
}

/** `name` is what the call calls the job that waits. */
export function unknownDependency(name: string, id: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `${name}.after names "${id}", and there is no such job: it was never added, or it was pruned. Nothing was added.`,
    { details: { option: `${name}.after`, jobId: id } },
  )
}

export function stillRuns(id: string): SignalboxError {
  return new SignalboxError('conflict', `Job "${id}" is running; cancel it first, or wait until it ends.`)
}

export function keyTaken(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `Job "${id}" cannot be retried: another live job has its unique key now.`,
  )
}

export function notAList(value: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `addMany takes a list of jobs, not ${value === null ? 'null' : typeof value}.`,
  )
}

export function tooMany(count: number, maxAddMany: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `addMany takes up to ${maxAddMany} jobs at once, not ${count}. Add them in parts.`,
  )
}
