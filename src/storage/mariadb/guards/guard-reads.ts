import type { GuardMode } from '../../../once/guard.ts'
import type { GuardQuery, GuardRecord } from '../../../once/guard-store.ts'
import { begin, type Calls, commit, rowCount, type Statement } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/** GuardStore.list: by key, in the order of bytes. */
export function list(
  { calls, tables, namespace }: Store,
  { space, search, limit, cursor }: GuardQuery,
): Promise<{ readonly items: readonly GuardRecord[]; readonly cursor: string | null }> {
  const conditions: Statement[] = [
    ['namespace = ? AND space = ?', [namespace, space]],
    [`(forget_at IS NULL OR forget_at > ${nowMs})`, []],
  ]
  if (search !== undefined) conditions.push(['LOCATE(?, guard_key) > 0', [search]])
  if (cursor !== undefined) {
    conditions.push(['guard_key > ?', [Buffer.from(cursor, 'base64url').toString()]])
  }
  return calls.run('list guards', async (call) => {
    const rows = await call.rows<ListedRow>(
      `SELECT guard_key, status, mode, attempt, claimed_at, ends_at, forget_at, ends_at <= ${nowMs} AS is_over
        FROM ${tables.guard} FORCE INDEX (PRIMARY) WHERE ${conditions.map(([text]) => text).join(' AND ')}
        ORDER BY guard_key LIMIT ?`,
      [...conditions.flatMap(([, values]) => values), limit + 1],
    )
    const items = rows.slice(0, limit).map(decodeListed)
    const last = rows.length > limit ? items.at(-1) : undefined
    return { items, cursor: last ? Buffer.from(last.key).toString('base64url') : null }
  })
}

interface ListedRow {
  readonly guard_key: string
  readonly status: 'running' | 'done' | 'failed'
  readonly mode: GuardMode
  readonly attempt: number
  readonly claimed_at: number
  readonly ends_at: number
  readonly forget_at: number | null
  readonly is_over: number
}

/** A lease that ran out failed at that instant, or is stuck. */
function decodeListed(row: ListedRow): GuardRecord {
  const { guard_key: key, mode, attempt, claimed_at: claimedAt } = row
  const same = { key, mode, attempt, claimedAt }
  if (row.status !== 'running' || !row.is_over) return { ...same, status: row.status, endsAt: row.ends_at }
  return { ...same, status: mode === 'at-most-once' ? 'stuck' : 'failed', endsAt: row.forget_at }
}

/** GuardStore.prune: guards, then windows; those that somebody has locked are left. */
export async function prune({ calls, tables, namespace }: Store, limit: number): Promise<number> {
  const guards = await pruneTable(calls, namespace, limit, {
    table: tables.guard,
    index: 'once_guard_forget',
    over: 'forget_at',
    key: ['space', 'guard_key'],
  })
  const windows = await pruneTable(calls, namespace, limit - guards, {
    table: tables.window,
    index: 'once_window_ends',
    over: 'ends_at',
    key: ['window_key'],
  })
  return guards + windows
}

interface Swept {
  readonly table: string
  readonly index: string
  /** When a row is over; null: never. */
  readonly over: string
  readonly key: readonly string[]
}

async function pruneTable(
  calls: Calls,
  namespace: string,
  limit: number,
  { table, index, over, key }: Swept,
): Promise<number> {
  const names = key.join(', ')
  let pruned = 0
  while (pruned < limit) {
    const most = Math.min(1_000, limit - pruned)
    const count = await calls.run('forget guards', async (call) => {
      const [, rows] = (await call.packet([
        begin,
        [
          `SELECT ${names} FROM ${table} FORCE INDEX (${index}) WHERE namespace = ? AND ${over} <= ${nowMs}
            ORDER BY ${over} LIMIT ? FOR UPDATE SKIP LOCKED`,
          [namespace, most],
        ],
      ])) as [unknown, Record<string, string>[]]
      if (rows.length === 0) {
        await call.packet([commit])
        return 0
      }
      const [gone] = await call.packet([
        [
          `DELETE k FROM (WITH v (${names}) AS (VALUES ?) SELECT * FROM v) old STRAIGHT_JOIN ${table} k
            ON k.namespace = ? AND ${key.map((column) => `k.${column} = old.${column}`).join(' AND ')}`,
          [rows.map((row) => key.map((column) => row[column])), namespace],
        ],
        commit,
      ])
      return rowCount(gone)
    })
    pruned += count
    if (count < most) break
  }
  return pruned
}
