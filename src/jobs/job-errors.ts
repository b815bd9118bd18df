import { invalidArgument, SignalboxError } from '../core/errors.ts'

/** The token no longer leases the job. */
export function leaseLost(id: string): SignalboxError {
  return new SignalboxError(
    'lease_lost',
    `Job "${id}" is no longer held with this token: it ended, or its lease expired. Nothing was written. If it expired: raise leaseMs, renew sooner, or unblock the event loop.`,
    { details: { jobId: id } },
  )
}

export function timedOut(id: string, timeoutMs: number): SignalboxError {
  return new SignalboxError('timeout', `Job "${id}" took longer than its time-out of ${timeoutMs} ms.`)
}

export function ackMissing(id: string): SignalboxError {
  return new SignalboxError(
    'ack_missing',
    `The handler of job "${id}" must end it in a transaction, but returned without a committed ack or nack.`,
  )
}

export function rolledBack(id: string): SignalboxError {
  return new SignalboxError(
    'ack_missing',
    `The handler of job "${id}" ended it in its own transaction, which was rolled back or never committed.`,
  )
}

/** Errors that every further attempt would meet again. */
const final = new WeakSet<object>()

export function isFinal(error: unknown): boolean {
  return typeof error === 'object' && error !== null && final.has(error)
}

/** The payload does not fit the schema. `issues` lists the errors and their places. */
export function unfit(id: string, kind: string, issues: string): SignalboxError {
  const error = new SignalboxError(
    'invalid_payload',
    `The payload kept for job "${id}" does not fit the kind "${kind}": ${issues}. Fix the schema or the handler and retry the job, or add it again.`,
    { details: { jobId: id, kind } },
  )
  final.add(error)
  return error
}

export function notFound(id: string): SignalboxError {
  return new SignalboxError('not_found', `There is no job "${id}": it was never added, or it was pruned.`)
}

/** The box or the server of the wait was closed. */
export function waitClosed(): SignalboxError {
  return new SignalboxError(
    'closed',
    'This box was closed, so its waits for jobs ended. The job itself continues: open another box and wait again.',
  )
}

/** `name` names the dependent job in the message. */
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
  return invalidArgument(`addMany takes a list of jobs, not ${value === null ? 'null' : typeof value}.`)
}

export function tooMany(count: number, maxAddMany: number): SignalboxError {
  return new SignalboxError(
    'too_large',
    `addMany takes up to ${maxAddMany} jobs at once, not ${count}. Add them in parts.`,
  )
}
