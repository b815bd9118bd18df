import type { CancelAnswer, QueueLimits, RetryAnswer } from '../../../jobs/index.ts'
import { cancelJob } from '../../sql/jobs/cancel.ts'
import { limitQueue, pauseQueue, resumeQueue } from '../../sql/jobs/queue-control.ts'
import { pruneHistory, removeJobs } from '../../sql/jobs/remove.ts'
import { type DeadJobs, type RetriedPage, retryDeadJobs, retryJob } from '../../sql/jobs/retry.ts'
import type { Age } from '../../sql/operations.ts'
import type { Operation } from '../../sql/procedure.ts'
import type { Moment } from '../connection/connection.ts'
import { runHere } from '../connection/database.ts'
import { takeBackIfLapsed, takeBackLapsed } from './reclaim.ts'

/**
 * The acts on jobs, in the open transaction. SQLite has one writer, so no other transaction ever has the row of a job:
 * after an expired lease was taken back, each operation runs once.
 */
function act<Args extends readonly unknown[], Answer>(
  { connection, namespace, now }: Moment,
  { procedure }: Operation<readonly [namespace: string, ...Args], Answer>,
  ...args: Args
): Answer {
  return runHere(connection, procedure(namespace, ...args), now)
}

export function cancel(moment: Moment, id: string): CancelAnswer | undefined {
  takeBackIfLapsed(moment, id)
  return (act(moment, cancelJob, id) as CancelAnswer | null) ?? undefined
}

export function retry(moment: Moment, id: string): RetryAnswer | undefined {
  const first = act(moment, retryJob, id)
  if (first === null || !('busy' in first)) return first ?? undefined
  takeBackIfLapsed(moment, first.busy)
  return retry(moment, id)
}

export function retryDead(moment: Moment, { limit, ...which }: DeadJobs): number {
  takeBackLapsed(moment, 1_000)
  let total = 0
  for (let after: string | null = ''; after !== null && total < limit; ) {
    const query = { ...which, limit: limit - total }
    const retried: RetriedPage = act(moment, retryDeadJobs, after, query)
    total += retried.count
    after = retried.last
  }
  return total
}

export function remove(moment: Moment, ids: readonly string[]): readonly string[] {
  return act(moment, removeJobs, ids).removed
}

export function prune(moment: Moment, age: Age): number {
  return act(moment, pruneHistory, age)
}

export function pause(moment: Moment, queue: string): void {
  moment.connection.turn.controls.delete(moment.namespace)
  act(moment, pauseQueue, queue)
}

export function resume(moment: Moment, queue: string): void {
  moment.connection.turn.controls.delete(moment.namespace)
  act(moment, resumeQueue, queue)
}

export function setLimits(moment: Moment, queue: string, limits: QueueLimits | null): void {
  moment.connection.turn.controls.delete(moment.namespace)
  act(moment, limitQueue, queue, limits)
}
