import type { LockKey } from '../../../locks/index.ts'
import { groupOf, type LineTimes, type Requester } from '../../../locks/rules/index.ts'
import type { RunRule } from '../../ruled-locks.ts'
import { nameLine } from '../../sql/wait-queue-key.ts'
import {
  type DueLine,
  type SweptLine,
  sweepBook,
  sweepGroup,
  sweepLines,
} from '../../sql/wait-queue-sweep.ts'
import { begin, type Calls, commit, rowCount } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { LockPlace } from './locks.ts'
import { commitLines, MariadbLine } from './wait-queue-rows.ts'

/**
 * Brings lines to the present whose time has come, and forgets what is over. Any number may sweep at once: a line that
 * somebody has at this moment is passed over, for whoever has it brings it to the present, and all is judged again once
 * a line is locked.
 */
export async function sweepNamespace(
  place: LockPlace,
  limit: number,
  times: LineTimes,
  run: RunRule,
): Promise<readonly SweptLine[]> {
  const { due, over } = await look(place, limit, times.keepMs)
  return sweepLines(
    due,
    (line) => sweepOne(place, line, times, run),
    () => forget(place, over, times.keepMs),
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
  readonly lines: boolean
}

/** What there is to do, in one trip. */
function look(
  { calls, tables, namespace }: LockPlace,
  limit: number,
  keepMs: number,
): Promise<{ due: readonly DueLine[]; over: Over }> {
  const { line, waiter, outcome, result } = tables
  const kept = (table: string, index: string) =>
    `EXISTS (SELECT 1 FROM ${table} FORCE INDEX (${index}) WHERE namespace = ? AND kept_until <= ${nowMs})`
  return calls.run('look for locks that are due', async (call) => {
    const [lines, waiters, [over]] = (await call.packet([
      [
        `SELECT operation, resource FROM ${line} FORCE INDEX (lock_queue_due)
          WHERE namespace = ? AND due_at <= ${nowMs} ORDER BY due_at LIMIT ?`,
        [namespace, limit],
      ],
      [
        `SELECT l.operation, l.resource, w.seq FROM ${waiter} w FORCE INDEX (lock_waiter_due)
          STRAIGHT_JOIN ${line} l ON l.queue_key = w.queue_key
          WHERE w.namespace = ? AND w.due_at <= ${nowMs} ORDER BY w.due_at LIMIT ?`,
        [namespace, mostWaiters],
      ],
      [
        `SELECT ${kept(outcome, 'lock_outcome_kept')} AS outcomes, ${kept(result, 'lock_result_kept')} AS results,
          EXISTS (SELECT 1 FROM ${line} FORCE INDEX (lock_queue_idle)
            WHERE namespace = ? AND idle_since <= ${nowMs} - ? AND grant_from <= ${nowMs}) AS \`lines\``,
        [namespace, namespace, namespace, keepMs],
      ],
    ])) as [LockKey[], (LockKey & { seq: number })[], Record<keyof Over, number>[]]
    const { outcomes, results, lines: idle } = over!
    return {
      due: gather(lines, waiters).slice(0, limit),
      over: { outcomes: outcomes === 1, results: results === 1, lines: idle === 1 },
    }
  })
}

/** Every line once, with the places of those who are due in it. */
function gather(lines: readonly LockKey[], waiters: readonly (LockKey & { seq: number })[]): DueLine[] {
  const due = new Map<string, LockKey & { readonly seqs: number[] }>()
  const at = ({ operation, resource }: LockKey) => {
    const name = JSON.stringify([operation, resource])
    const known = due.get(name) ?? { operation, resource, seqs: [] }
    due.set(name, known)
    return known
  }
  for (const line of lines) at(line)
  for (const waiter of waiters) at(waiter).seqs.push(waiter.seq)
  return [...due.values()]
}

async function sweepOne(
  place: LockPlace,
  due: DueLine,
  times: LineTimes,
  run: RunRule,
): Promise<readonly SweptLine[]> {
  const { lineCalls, tables, namespace, packetBytes } = place
  const group = groupOf(times.conflicts, due.operation)
  if (group) return sweepGroup(due, group, await whoIsAt(place, due), times, run)
  return lineCalls.run('sweep a lock', async (call) => {
    const line = new MariadbLine(call, tables, nameLine(namespace, due), packetBytes)
    const opened = await line.tryOpen(due.seqs)
    if (!opened) {
      await call.packet([['ROLLBACK', []]])
      return []
    }
    const swept = await sweepBook(due, opened.book, opened.waiters, times)
    await commitLines(call, [[line, opened.book.lastWrites()]])
    return swept
  })
}

async function whoIsAt({ calls, tables, namespace }: LockPlace, due: DueLine): Promise<readonly Requester[]> {
  if (due.seqs.length === 0) return []
  return calls.run('look for who waits no longer', (call) =>
    call.rows<{ node: string; requestId: string }>(
      `SELECT node, request_id AS requestId FROM ${tables.waiter} WHERE queue_key = ? AND seq IN (?)`,
      [nameLine(namespace, due).lineKey, due.seqs],
    ),
  )
}

async function forget(place: LockPlace, over: Over, keepMs: number): Promise<void> {
  const { calls, tables, namespace } = place
  const { outcome, result } = tables
  if (over.outcomes) {
    const columns = ['queue_key', 'node', 'request_id']
    await inBites(() => forgetKept(calls, outcome, 'lock_outcome_kept', columns, namespace))
  }
  if (over.results) {
    const columns = ['queue_key', 'revision']
    await inBites(() => forgetKept(calls, result, 'lock_result_kept', columns, namespace))
  }
  if (over.lines) await inBites(() => forgetLines(place, keepMs))
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

/** A line is forgotten by whoever has its lock, and only while it is still idle then. */
function forgetLines({ calls, tables, namespace }: LockPlace, keepMs: number): Promise<number> {
  const { line, outcome } = tables
  const idle = `idle_since <= ${nowMs} - ? AND grant_from <= ${nowMs}`
  return calls.run('forget locks', async (call) => {
    const found = await call.rows<{ queue_key: string }>(
      `SELECT queue_key FROM ${line} l FORCE INDEX (lock_queue_idle) WHERE namespace = ? AND ${idle}
        AND NOT EXISTS (SELECT 1 FROM ${outcome} o WHERE o.queue_key = l.queue_key) LIMIT ?`,
      [namespace, keepMs, bite],
    )
    if (found.length === 0) return 0
    const keys = found.map(({ queue_key }) => queue_key)
    const [, mine, ended] = (await call.packet([
      begin,
      [
        `SELECT queue_key FROM ${line} WHERE queue_key IN (?) AND ${idle} FOR UPDATE SKIP LOCKED`,
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
    const [deleted] = await call.packet([[`DELETE FROM ${line} WHERE queue_key IN (?)`, [gone]], commit])
    return rowCount(deleted)
  })
}
