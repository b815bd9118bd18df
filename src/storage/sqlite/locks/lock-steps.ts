import type { LockKey, LockStore } from '../../../locks/index.ts'
import {
  expire,
  type LockTimes,
  type Notified,
  type Requester,
  type Rule,
  type Ruled,
  runNow,
  sweep,
} from '../../../locks/rules/index.ts'
import { changesOf, lockRules, type RuledLocks } from '../../ruled-locks.ts'
import { type Connection, type Moment, readNow } from '../connection/connection.ts'
import { readLeaseClock } from './lease-clock.ts'
import { forgetTaken } from './lock-tokens.ts'
import { SqliteWaitQueue } from './wait-queue-rows.ts'

/** The steps on a wait queue, as callers request them. */
export type LockSteps = RuledLocks

/** One step: its name and its arguments as plain data. */
export type LockStep = {
  [Name in keyof LockSteps]: [name: Name, args: Parameters<LockSteps[Name]>]
}[keyof LockSteps]

/** Runs one step. */
export function takeStep(moment: Moment, [name, args]: LockStep): Ruled<object> {
  const [key, ...rest] = args
  const rule = lockRules[name] as (...args: readonly unknown[]) => Rule<Ruled<object>>
  return runRule(moment, key, rule(...rest))
}

function runRule<Answer>({ connection, namespace, now }: Moment, key: LockKey, rule: Rule<Answer>): Answer {
  const rows = new SqliteWaitQueue(connection, namespace, key, now)
  let others: Map<string, SqliteWaitQueue> | undefined
  const open = (operation: string) => {
    others ??= new Map()
    const other =
      others.get(operation) ?? new SqliteWaitQueue(connection, namespace, { ...key, operation }, now)
    others.set(operation, other)
    return other
  }
  try {
    const answer = runNow(rule, rows, open)
    rows.close()
    if (others) for (const other of others.values()) other.close()
    return answer
  } catch (error) {
    forgetTaken(connection)
    throw error
  }
}

/**
 * Whether `sweepQueues` would find anything. The reader answers. The statement names its indexes, because SQLite does
 * not know how few rows are due, and would read all wait queues of the namespace and all their waiters.
 */
export function maySweep(connection: Connection, namespace: string, times: LockTimes): boolean {
  const { due } = connection.get<{ due: number }>(
    maySweepSql,
    namespace,
    readLeaseClock(connection),
    readNow(connection) - times.keepMs,
  )!
  return due === 1
}

/** The lock has no holder, no waiter and no stored outcome, and its lock delay is over. */
const idleQueue = `FROM lock_queue INDEXED BY lock_queue_idle
  WHERE holder_node IS NULL AND waiter_count = 0 AND outcome_count = 0 AND namespace = ?1 AND grant_from <= ?2`

export const maySweepSql: string = `SELECT
  EXISTS (SELECT 1 FROM lock_queue INDEXED BY lock_queue_due WHERE due_at <= ?2 AND namespace = ?1)
  OR EXISTS (SELECT 1 FROM lock_waiter INDEXED BY lock_waiter_lease CROSS JOIN lock_queue USING (queue_id)
    WHERE lock_waiter.lease_ends_at <= ?2 AND namespace = ?1)
  OR EXISTS (SELECT 1 FROM lock_waiter INDEXED BY lock_waiter_deadline CROSS JOIN lock_queue USING (queue_id)
    WHERE deadline_at <= ?2 AND namespace = ?1)
  OR EXISTS (SELECT 1 FROM lock_outcome WHERE kept_until <= ?2)
  OR EXISTS (SELECT 1 ${idleQueue} AND last_at IS NULL)
  OR EXISTS (SELECT 1 ${idleQueue} AND last_at <= ?3) AS due`

/** Ends leases and waits of the namespace that are due, and deletes expired rows. */
export function sweepQueues(
  moment: Moment,
  limit: number,
  times: LockTimes,
): Awaited<ReturnType<LockStore['sweep']>> {
  const { connection, namespace } = moment
  const now = readLeaseClock(connection)
  const swept: { key: LockKey; notified: Notified }[] = []
  const step = (key: LockKey, rule: Rule<Ruled<object>>) => {
    swept.push(...changesOf(key, runRule(moment, key, rule)))
  }
  for (const key of connection.all<LockKey>(findDueSql, namespace, now, limit)) step(key, sweep(times))
  const gone = connection.all<LockKey & Requester>(findGoneSql, namespace, now, limit)
  for (const { operation, resource, node, requestId } of gone)
    step({ operation, resource }, expire({ node, requestId }, times))
  forget(moment, now, times.keepMs, limit)
  return swept
}

export const findDueSql = `SELECT operation, resource FROM lock_queue INDEXED BY lock_queue_due
  WHERE due_at <= ?2 AND namespace = ?1 ORDER BY due_at LIMIT ?3 + 0`

/** Waiters whose lease or deadline has passed. */
export const findGoneSql = `SELECT operation, resource, w.node AS node, w.request_id AS requestId
  FROM (SELECT queue_id, node, request_id FROM lock_waiter INDEXED BY lock_waiter_lease WHERE lease_ends_at <= ?2
        UNION SELECT queue_id, node, request_id FROM lock_waiter INDEXED BY lock_waiter_deadline
        WHERE deadline_at <= ?2) AS w
  CROSS JOIN lock_queue USING (queue_id) WHERE namespace = ?1 LIMIT ?3 + 0`

function forget(moment: Moment, now: number, keepMs: number, limit: number): void {
  const { connection, namespace } = moment
  const over = connection.all<{ queue_id: number; node: string; request_id: string }>(
    `SELECT queue_id, node, request_id FROM lock_outcome WHERE kept_until <= ?1 LIMIT ?2 + 0`,
    now,
    limit,
  )
  for (const { queue_id: queueId, node, request_id: requestId } of over) {
    const gone = connection.run(
      `DELETE FROM lock_outcome WHERE queue_id = ?1 AND node = ?2 AND request_id = ?3`,
      queueId,
      node,
      requestId,
    )
    connection.run(
      `UPDATE lock_queue SET outcome_count = outcome_count - ?2 WHERE queue_id = ?1`,
      queueId,
      gone,
    )
  }
  connection.run(forgetSql, namespace, now, moment.now - keepMs, limit)
}

export const forgetSql: string = `DELETE FROM lock_queue WHERE queue_id IN (
  SELECT queue_id ${idleQueue} AND last_at IS NULL
  UNION ALL SELECT queue_id ${idleQueue} AND last_at <= ?3
  LIMIT ?4 + 0)`
