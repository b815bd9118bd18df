import type { LockKey } from '../../../locks/index.ts'
import { groupOf, type LockTimes, type Requester } from '../../../locks/rules/index.ts'
import type { RunRule } from '../../ruled-locks.ts'
import { nameWaitQueue } from '../../sql/locks/wait-queue-key.ts'
import {
  type DueWaitQueue,
  type SweptWaitQueue,
  sweepBook,
  sweepGroup,
  sweepQueues,
} from '../../sql/locks/wait-queue-sweep.ts'
import { begin, type Calls, commit, rowCount } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { MariadbLockParts } from './locks.ts'
import { commitQueues, MariadbWaitQueue } from './wait-queue-rows.ts'

/**
 * Brings wait queues to the present whose time has come, and forgets what is over. Any number may sweep at once: a wait queue that
 * somebody has at this moment is passed over, for whoever has it brings it to the present, and all is judged again once
 * a wait queue is locked.
 */
export async function sweepNamespace(
  parts: MariadbLockParts,
  limit: number,
  times: LockTimes,
  run: RunRule,
): Promise<readonly SweptWaitQueue[]> {
  const { due, over } = await look(parts, limit, times.keepMs)
  return sweepQueues(
    due,
    (queue) => sweepOne(parts, queue, times, run),
    () => forget(parts, over, times.keepMs),
  )
}

/** How many waiters one sweep ends at most. */
const mostWaiters = 1_000
/** How many rows are forgotten in one transaction, and how many transactions a sweep makes of it at most. */
const bite = 200
const mostBites = 10

/** Whether there is something to forget. */
interface Over {
  readonly outcomes: boolean
  readonly results: boolean
  readonly queues: boolean
}

/** What there is to do, in one trip. */
function look(
  { calls, tables, namespace }: MariadbLockParts,
  limit: number,
  keepMs: number,
): Promise<{ due: readonly DueWaitQueue[]; over: Over }> {
  const { queue, waiter, outcome, result } = tables
  const kept = (table: string, index: string) =>
    `EXISTS (SELECT 1 FROM ${table} FORCE INDEX (${index}) WHERE namespace = ? AND kept_until <= ${nowMs})`
  return calls.run('look for locks that are due', async (call) => {
    const [queues, waiters, [over]] = (await call.packet([
      [
        `SELECT operation, resource FROM ${queue} FORCE INDEX (lock_queue_due)
          WHERE namespace = ? AND due_at <= ${nowMs} ORDER BY due_at LIMIT ?`,
        [namespace, limit],
      ],
      [
        `SELECT l.operation, l.resource, w.seq FROM ${waiter} w FORCE INDEX (lock_waiter_due)
          STRAIGHT_JOIN ${queue} l ON l.queue_key = w.queue_key
          WHERE w.namespace = ? AND w.due_at <= ${nowMs} ORDER BY w.due_at LIMIT ?`,
        [namespace, mostWaiters],
      ],
      [
        `SELECT ${kept(outcome, 'lock_outcome_kept')} AS outcomes, ${kept(result, 'lock_result_kept')} AS results,
          EXISTS (SELECT 1 FROM ${queue} FORCE INDEX (lock_queue_idle)
            WHERE namespace = ? AND idle_since <= ${nowMs} - ? AND grant_from <= ${nowMs}) AS \`queues\``,
        [namespace, namespace, namespace, keepMs],
      ],
    ])) as [LockKey[], (LockKey & { seq: number })[], Record<keyof Over, number>[]]
    const { outcomes, results, queues: idle } = over!
    return {
      due: gather(queues, waiters).slice(0, limit),
      over: { outcomes: outcomes === 1, results: results === 1, queues: idle === 1 },
    }
  })
}

/** Every wait queue once, with the positions of those who are due in it. */
function gather(queues: readonly LockKey[], waiters: readonly (LockKey & { seq: number })[]): DueWaitQueue[] {
  const due = new Map<string, LockKey & { readonly seqs: number[] }>()
  const at = ({ operation, resource }: LockKey) => {
    const name = JSON.stringify([operation, resource])
    const known = due.get(name) ?? { operation, resource, seqs: [] }
    due.set(name, known)
    return known
  }
  for (const queue of queues) at(queue)
  for (const waiter of waiters) at(waiter).seqs.push(waiter.seq)
  return [...due.values()]
}

async function sweepOne(
  parts: MariadbLockParts,
  due: DueWaitQueue,
  times: LockTimes,
  run: RunRule,
): Promise<readonly SweptWaitQueue[]> {
  const { waitingCalls, tables, namespace, packetBytes } = parts
  const group = groupOf(times.conflicts, due.operation)
  if (group) return sweepGroup(due, group, await whoIsAt(parts, due), times, run)
  return waitingCalls.run('sweep a lock', async (call) => {
    const queue = new MariadbWaitQueue(call, tables, nameWaitQueue(namespace, due), packetBytes)
    const opened = await queue.tryOpen(due.seqs)
    if (!opened) {
      await call.packet([['ROLLBACK', []]])
      return []
    }
    const swept = await sweepBook(due, opened.buffer, opened.waiters, times)
    await commitQueues(call, [[queue, opened.buffer.lastWrites()]])
    return swept
  })
}

async function whoIsAt(
  { calls, tables, namespace }: MariadbLockParts,
  due: DueWaitQueue,
): Promise<readonly Requester[]> {
  if (due.seqs.length === 0) return []
  return calls.run('look for who waits no longer', (call) =>
    call.rows<{ node: string; requestId: string }>(
      `SELECT node, request_id AS requestId FROM ${tables.waiter} WHERE queue_key = ? AND seq IN (?)`,
      [nameWaitQueue(namespace, due).queueKey, due.seqs],
    ),
  )
}

async function forget(parts: MariadbLockParts, over: Over, keepMs: number): Promise<void> {
  const { calls, tables, namespace } = parts
  const { outcome, result } = tables
  if (over.outcomes) {
    const columns = ['queue_key', 'node', 'request_id']
    await inBites(() => forgetKept(calls, outcome, 'lock_outcome_kept', columns, namespace))
  }
  if (over.results) {
    const columns = ['queue_key', 'revision']
    await inBites(() => forgetKept(calls, result, 'lock_result_kept', columns, namespace))
  }
  if (over.queues) await inBites(() => forgetQueues(parts, keepMs))
}

async function inBites(take: () => Promise<number>): Promise<void> {
  for (let bites = 0; bites < mostBites; bites++) if ((await take()) < bite) return
}

/** Rows that somebody has locked are left to the next sweep. */
function forgetKept(
  calls: Calls,
  table: string,
  index: string,
  columns: readonly string[],
  namespace: string,
): Promise<number> {
  return calls.run('forget how locks ended', async (call) => {
    const [, rows] = (await call.packet([
      begin,
      [
        `SELECT ${columns.join(', ')} FROM ${table} FORCE INDEX (${index})
          WHERE namespace = ? AND kept_until <= ${nowMs} ORDER BY kept_until LIMIT ? FOR UPDATE SKIP LOCKED`,
        [namespace, bite],
      ],
    ])) as [unknown, Record<string, unknown>[]]
    const gone = rows.map((row) => columns.map((column) => row[column]))
    const same = columns.map((column) => `t.${column} = old.${column}`).join(' AND ')
    await call.packet([
      ...(gone.length === 0
        ? []
        : [
            [
              `DELETE t FROM (WITH v (${columns.join(', ')}) AS (VALUES ?) SELECT * FROM v) old
                STRAIGHT_JOIN ${table} t ON ${same}`,
              [gone],
            ] as const,
          ]),
      commit,
    ])
    return gone.length
  })
}

/** A wait queue is forgotten by whoever has its lock, and only while it is still idle then. */
function forgetQueues({ calls, tables, namespace }: MariadbLockParts, keepMs: number): Promise<number> {
  const { queue, outcome } = tables
  const idle = `idle_since <= ${nowMs} - ? AND grant_from <= ${nowMs}`
  return calls.run('forget locks', async (call) => {
    const found = await call.rows<{ queue_key: string }>(
      `SELECT queue_key FROM ${queue} l FORCE INDEX (lock_queue_idle) WHERE namespace = ? AND ${idle}
        AND NOT EXISTS (SELECT 1 FROM ${outcome} o WHERE o.queue_key = l.queue_key) LIMIT ?`,
      [namespace, keepMs, bite],
    )
    if (found.length === 0) return 0
    const keys = found.map(({ queue_key }) => queue_key)
    const [, mine, ended] = (await call.packet([
      begin,
      [
        `SELECT queue_key FROM ${queue} WHERE queue_key IN (?) AND ${idle} FOR UPDATE SKIP LOCKED`,
        [keys, keepMs],
      ],
      [`SELECT DISTINCT queue_key FROM ${outcome} WHERE queue_key IN (?)`, [keys]],
    ])) as [unknown, { queue_key: string }[], { queue_key: string }[]]
    const stays = new Set(ended.map(({ queue_key }) => queue_key))
    const gone = mine.map(({ queue_key }) => queue_key).filter((key) => !stays.has(key))
    if (gone.length === 0) {
      await call.packet([['ROLLBACK', []]])
      return 0
    }
    const [deleted] = await call.packet([[`DELETE FROM ${queue} WHERE queue_key IN (?)`, [gone]], commit])
    return rowCount(deleted)
  })
}
