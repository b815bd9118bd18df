import type { Moment } from '../connection/connection.ts'

/**
 * Ready jobs stand in one line per queue and kind; those with a limit key stand in others than those without. SQLite
 * merges the lines as it reads them, each in its index order, and stops at the limit: what is chosen costs what it is,
 * whatever waits behind it or beside it.
 */

/** The most lines one statement merges: SQLite takes 500, and each line costs a little per row. */
const mergedLines = 50

/** What a claim selects, read as arrays: it is the longest list that anything here reads. */
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

interface Line {
  readonly queue: string
  readonly kind: string
  readonly isKeyed: boolean
}

export interface ReadyQuery {
  readonly queues: readonly string[]
  /** Null: any. */
  readonly kinds: readonly string[] | null
  /** Which lines: those of jobs without a key, and those of jobs with one. */
  readonly keyed: readonly boolean[]
  readonly limit: number
}

/** The first `limit` ready jobs of all the lines asked for, in order. */
export function chooseReady(
  moment: Moment,
  { queues, kinds, keyed, limit }: ReadyQuery,
): readonly ReadyRow[] {
  const names = new Set(queues)
  const lines = keyed.flatMap((isKeyed) =>
    [...names].flatMap((queue): readonly Line[] => {
      const known = kinds === null ? readyKinds(moment, queue, isKeyed) : new Set(kinds)
      return [...known].map((kind) => ({ queue, kind, isKeyed }))
    }),
  )
  if (lines.length <= mergedLines) return merge(moment, lines, limit)
  const parts: ReadyRow[] = []
  for (let at = 0; at < lines.length; at += mergedLines) {
    parts.push(...merge(moment, lines.slice(at, at + mergedLines), limit))
  }
  return parts.sort(byPriorityThenAge).slice(0, limit)
}

/** These ready jobs, in any order. */
export function findReady({ connection, namespace }: Moment, ids: readonly string[]): readonly ReadyRow[] {
  if (ids.length === 0) return []
  return connection.rows<ReadyRow>(
    `SELECT ${readyColumns} FROM job_queue WHERE namespace = ?1 AND id IN (SELECT value FROM json_each(?2))`,
    namespace,
    JSON.stringify(ids),
  )
}

const lineOf = (isKeyed: boolean) =>
  isKeyed
    ? { index: 'job_queue_keyed', where: `state = 'ready' AND limit_key IS NOT NULL` }
    : { index: 'job_queue_ready', where: `state = 'ready' AND limit_key IS NULL` }
const [plainKinds, keyedKinds] = [false, true].map((isKeyed) => {
  const { index, where } = lineOf(isKeyed)
  const least = `SELECT min(kind) FROM job_queue INDEXED BY ${index} WHERE namespace = ?1 AND queue = ?2 AND ${where}`
  return `WITH RECURSIVE known (kind) AS (
       SELECT (${least})
       UNION ALL
       SELECT (${least} AND kind > known.kind) FROM known WHERE known.kind IS NOT NULL
     )
     SELECT kind FROM known WHERE kind IS NOT NULL`
}) as [string, string]

/** The kinds that have ready jobs in a queue, found by leaping from one to the next along the index. */
function readyKinds({ connection, namespace }: Moment, queue: string, isKeyed: boolean): string[] {
  return connection
    .all<{ kind: string }>(isKeyed ? keyedKinds : plainKinds, namespace, queue)
    .map(({ kind }) => kind)
}

/** Lines without a key come first. */
function merge(
  { connection, namespace }: Moment,
  lines: readonly Line[],
  limit: number,
): readonly ReadyRow[] {
  if (lines.length === 0) return []
  const keyedCount = lines.reduce((count, { isKeyed }) => (isKeyed ? count + 1 : count), 0)
  const names = lines.flatMap(({ queue, kind }) => [queue, kind])
  return connection.rows<ReadyRow>(mergeStatement(lines.length, keyedCount), namespace, limit, ...names)
}

const statements: string[] = []

function mergeStatement(lineCount: number, keyedCount: number): string {
  const number = lineCount * (mergedLines + 1) + keyedCount
  const known = statements[number]
  if (known !== undefined) return known
  const lines = Array.from({ length: lineCount }, (_, i) => {
    const { index, where } = lineOf(i >= lineCount - keyedCount)
    return `
      SELECT ${readyColumns}
      FROM job_queue INDEXED BY ${index}
      WHERE namespace = ?1 AND queue = ?${2 * i + 3} AND kind = ?${2 * i + 4} AND ${where}`
  })
  const sql = `${lines.join('\n UNION ALL')}\n ORDER BY priority DESC, run_at, id LIMIT ?2 + 0`
  statements[number] = sql
  return sql
}

export function byPriorityThenAge(
  [priority, runAt, id]: readonly [number, number, string, ...unknown[]],
  [otherPriority, otherRunAt, otherId]: readonly [number, number, string, ...unknown[]],
): number {
  return otherPriority - priority || runAt - otherRunAt || (id < otherId ? -1 : 1)
}
