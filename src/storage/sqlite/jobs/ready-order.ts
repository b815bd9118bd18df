import type { Moment } from '../connection/connection.ts'

/**
 * Reads ready jobs in claim order. For each queue and kind there are two ordered lists: jobs with a limit key and jobs
 * without. SQLite merges the lists as it reads them, each in its index order, and stops at the limit. So the cost
 * depends on the number of chosen jobs, not on the number of waiting jobs.
 */

/** The maximum number of lists that one statement merges. SQLite allows 500, and each list costs a little per row. */
const maxMerged = 50

/** A ready job, read as an array, because claims read more rows than any other call. */
export type ReadyRow = readonly [
  priority: number,
  runAt: number,
  id: string,
  row: number,
  leaseNo: number,
  queue: string,
  kind: string,
  payload: string,
  uniqueKey: string | null,
  attempt: number,
  maxAttempts: number,
  handBackCount: number,
  snoozeCount: number,
  createdAt: number,
  backoff: string | null,
  timeoutMs: number | null,
  meta: string | null,
  error: string | null,
]
export const readyColumns = `priority, run_at, id, rowid, lease_no, queue, kind, payload, unique_key, attempt,
        max_attempts, hand_back_count, snooze_count, created_at, backoff, timeout_ms, meta, error`

interface ReadyList {
  readonly queue: string
  readonly kind: string
  readonly isKeyed: boolean
}

export interface ReadyQuery {
  readonly queues: readonly string[]
  /** Null: any kind. */
  readonly kinds: readonly string[] | null
  /** Which lists to read: of jobs without a key, of jobs with one, or both. */
  readonly keyed: readonly boolean[]
  readonly limit: number
}

/** The first `limit` ready jobs of all requested lists, in claim order. */
export function chooseReady(
  moment: Moment,
  { queues, kinds, keyed, limit }: ReadyQuery,
): readonly ReadyRow[] {
  const names = new Set(queues)
  const lists = keyed.flatMap((isKeyed) =>
    [...names].flatMap((queue): readonly ReadyList[] => {
      const known = kinds === null ? readyKinds(moment, queue, isKeyed) : new Set(kinds)
      return [...known].map((kind) => ({ queue, kind, isKeyed }))
    }),
  )
  if (lists.length <= maxMerged) return merge(moment, lists, limit)
  const parts: ReadyRow[] = []
  for (let at = 0; at < lists.length; at += maxMerged) {
    parts.push(...merge(moment, lists.slice(at, at + maxMerged), limit))
  }
  return parts.sort(byPriorityThenAge).slice(0, limit)
}

/** Reads these ready jobs, in any order. */
export function findReady({ connection, namespace }: Moment, ids: readonly string[]): readonly ReadyRow[] {
  if (ids.length === 0) return []
  return connection.rows<ReadyRow>(
    `SELECT ${readyColumns} FROM job_queue WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))`,
    namespace,
    JSON.stringify(ids),
  )
}

const listOf = (isKeyed: boolean) =>
  isKeyed
    ? { index: 'job_queue_keyed', where: `state = 'ready' AND limit_key IS NOT NULL` }
    : { index: 'job_queue_ready', where: `state = 'ready' AND limit_key IS NULL` }
const [plainKinds, keyedKinds] = [false, true].map((isKeyed) => {
  const { index, where } = listOf(isKeyed)
  const least = `SELECT min(kind) FROM job_queue INDEXED BY ${index} WHERE namespace = ?1 AND queue = ?2 AND ${where}`
  return `WITH RECURSIVE known (kind) AS (
       SELECT (${least})
       UNION ALL
       SELECT (${least} AND kind > known.kind) FROM known WHERE known.kind IS NOT NULL
     )
     SELECT kind FROM known WHERE kind IS NOT NULL`
}) as [string, string]

/** The kinds of ready jobs in a queue. It jumps from one kind to the next along the index. */
function readyKinds({ connection, namespace }: Moment, queue: string, isKeyed: boolean): string[] {
  return connection
    .all<{ kind: string }>(isKeyed ? keyedKinds : plainKinds, namespace, queue)
    .map(({ kind }) => kind)
}

/** Lists without a key come first. */
function merge(
  { connection, namespace }: Moment,
  lists: readonly ReadyList[],
  limit: number,
): readonly ReadyRow[] {
  if (lists.length === 0) return []
  const keyedCount = lists.reduce((count, { isKeyed }) => (isKeyed ? count + 1 : count), 0)
  const names = lists.flatMap(({ queue, kind }) => [queue, kind])
  return connection.rows<ReadyRow>(mergeStatement(lists.length, keyedCount), namespace, limit, ...names)
}

const statements: string[] = []

function mergeStatement(listCount: number, keyedCount: number): string {
  const number = listCount * (maxMerged + 1) + keyedCount
  const known = statements[number]
  if (known !== undefined) return known
  const lists = Array.from({ length: listCount }, (_, i) => {
    const { index, where } = listOf(i >= listCount - keyedCount)
    return `
      SELECT ${readyColumns}
      FROM job_queue INDEXED BY ${index}
      WHERE namespace = ?1 AND queue = ?${2 * i + 3} AND kind = ?${2 * i + 4} AND ${where}`
  })
  const sql = `${lists.join('\n UNION ALL')}\n ORDER BY priority DESC, run_at, id LIMIT ?2 + 0`
  statements[number] = sql
  return sql
}

export function byPriorityThenAge(
  [priority, runAt, id]: readonly [number, number, string, ...unknown[]],
  [otherPriority, otherRunAt, otherId]: readonly [number, number, string, ...unknown[]],
): number {
  return otherPriority - priority || runAt - otherRunAt || (id < otherId ? -1 : 1)
}
