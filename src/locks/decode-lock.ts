import type { Failure } from '../core/describe-error.ts'
import { SignalboxError } from '../core/errors.ts'
import { parseJson } from '../core/json.ts'
import type { AcquireAnswer, LockHolder, LockOutcome, LockQueue } from './lock.ts'
import type { LockKey, WaitQueueView } from './lock-store.ts'
import type { HolderView, LastOutcome, OutcomeKind, Standing } from './rules/index.ts'

export function decodeStanding(key: LockKey, standing: Standing): AcquireAnswer {
  switch (standing.status) {
    case 'granted':
    case 'queued':
      return standing
    case 'refused':
      return { status: 'refused', holder: decodeHolder(standing.holder) }
    case 'ended':
      return decodeEnd(standing.kind, standing.value)
    case 'full':
      throw new SignalboxError(
        'too_many',
        `The wait queue of ${describe(key)} is full: it has ${standing.waiters} waiters. Try again later.`,
        { details: { waiters: standing.waiters, retryAfterMs: 1_000 } },
      )
  }
}

function decodeEnd(kind: OutcomeKind, value: string | null): AcquireAnswer {
  if (kind === 'completed') return { status: 'completed', result: parse(value) }
  return { status: 'failed', error: kind === 'failed' ? failureOf(value) : endings[kind] }
}

/** The error of a wait that ended without an outcome of its wait queue. */
export const endings: Readonly<Record<Exclude<OutcomeKind, 'completed' | 'failed'>, Failure>> = {
  timeout: { code: 'timeout', message: 'The deadline passed before the lock was granted.' },
  evicted: { code: 'evicted', message: 'An operator removed this request from the wait queue.' },
  lost: { code: 'lease_lost', message: 'The position in the wait queue, or the grant, ran out.' },
}

export function decodeHolder(holder: HolderView | null): LockHolder | null {
  return holder && { ...holder, progress: parse(holder.progress) }
}

/** A wait queue that the store does not have. */
export function emptyQueue({ operation, resource }: LockKey): WaitQueueView {
  return { operation, resource, revision: 0, holder: null, waiters: [], waiterCount: 0, lastOutcome: null }
}

export function decodeQueue(view: WaitQueueView): LockQueue {
  const { operation, resource, holder, waiters, waiterCount, lastOutcome } = view
  return {
    ...{ operation, resource, waiters, waiterCount },
    holder: decodeHolder(holder),
    lastOutcome: decodeOutcome(lastOutcome),
  }
}

function decodeOutcome(last: LastOutcome | null): LockOutcome | null {
  if (last === null) return null
  const { outcome, node, attempt, at, value } = last
  const shared = { outcome, node, attempt, at }
  return outcome === 'success' ? { ...shared, result: parse(value) } : { ...shared, error: failureOf(value) }
}

export function failureOf(value: string | null): Failure {
  const parsed = parse(value)
  return typeof parsed === 'object' && parsed !== null
    ? (parsed as Failure)
    : { message: value ?? 'The holder failed without an error.' }
}

/** Parses JSON that the store wrote. A row that was damaged from outside is shown as text. */
export function parse(value: string | null): unknown {
  return value === null ? null : parseJson(value, value)
}

export function describe({ operation, resource }: LockKey): string {
  return `${operation} of ${JSON.stringify(resource)}`
}
