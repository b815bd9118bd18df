import type { ClaimedRecord, ClaimRequest } from '../../jobs/index.ts'
import { createNonce, encodeToken } from '../token.ts'
import type { Connection } from './connection.ts'
import { takeBackLapsed } from './lapse.ts'

/**
 * Claiming. What is due and what ran out is made ready, then the first of all the lines asked for are chosen and
 * marked: all in one transaction, so each job goes to one claimer and the order is exact.
 *
 * Ready jobs stand in one line per queue and kind. SQLite merges the lines as it reads them, each in its index order,
 * and stops at the limit: a claim costs what it hands out, whatever waits behind it or beside it.
 */

/** The most rows one turn promotes or takes back; a claim that finds more goes on in a turn of its own. */
const sweepLimit = 2_000
/** The most lines one statement merges: SQLite takes 500, and each line costs a little per row. */
const mergedLines = 50

/** What a claim selects, read as arrays: it is the longest list that anything here reads. */
type ReadyRow = readonly [
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
  freeCount: number,
  createdAt: number,
  backoff: string | null,
  timeoutMs: number | null,
  meta: string | null,
  error: string | null,
]
const readyColumns = `priority, run_at, id, rowid, lease_no, queue, kind, payload, unique_key, attempt, max_attempts,
        free_count, created_at, backoff, timeout_ms, meta, error`

/** Whether a claim could find anything. Asked of a reader, so that an idle worker never needs the writer's lock. */
export function mayClaim(
  connection: Connection,
  namespace: string,
  request: ClaimRequest,
  now: number,
): boolean {
  const { due } = connection.get<{ due: number }>(
    `SELECT EXISTS (SELECT 1 FROM job_queue
         WHERE namespace = ?1 AND state = 'scheduled' AND run_at <= ?2)
       OR EXISTS (SELECT 1 FROM job_queue
         WHERE namespace = ?1 AND state = 'running' AND lease_ends_at <= ?2) AS due`,
    namespace,
    now,
  )!
  if (due === 1) return true
  const paused = pausedQueues(connection, namespace)
  return choose(connection, namespace, { ...request, limit: 1 }, paused).length > 0
}

/** Hands out jobs, or undefined when there was too much to sweep for one turn and it should be asked again. */
export function claimJobs(
  connection: Connection,
  namespace: string,
  request: ClaimRequest,
  now: number,
): readonly ClaimedRecord[] | undefined {
  const { turn } = connection
  if (!turn.swept.has(namespace)) {
    const promoted = promoteDue(connection, namespace, now)
    const lapsed = takeBackLapsed(connection, namespace, sweepLimit, now)
    if (promoted === sweepLimit || lapsed.length === sweepLimit) return undefined
    turn.swept.add(namespace)
  }

  const paused = turn.paused.get(namespace) ?? pausedQueues(connection, namespace)
  turn.paused.set(namespace, paused)
  const rows = choose(connection, namespace, request, paused)
  if (rows.length === 0) return []
  const lease: Lease = {
    workerId: request.workerId,
    nonce: createNonce(),
    startedAt: now,
    leaseEndsAt: now + request.leaseMs,
  }
  connection.run(
    `UPDATE job_queue
     SET state = 'running', attempt = attempt + 1, lease_no = lease_no + 1, lease_nonce = ?2, lease_ends_at = ?3,
         worker_id = ?4, started_at = ?5, updated_at = ?5
     WHERE rowid IN (SELECT value FROM json_each(?1))`,
    `[${rows.map(([, , , row]) => row).join()}]`,
    lease.nonce,
    lease.leaseEndsAt,
    lease.workerId,
    now,
  )
  return rows.map((row) => decodeClaimed(row, lease))
}

interface Lease {
  readonly workerId: string
  readonly nonce: string
  readonly startedAt: number
  readonly leaseEndsAt: number
}

/** The row as the claim has made it. */
function decodeClaimed(row: ReadyRow, { workerId, nonce, startedAt, leaseEndsAt }: Lease): ClaimedRecord {
  const [priority, runAt, id, , leaseNo, queue, kind, payload, uniqueKey, attempt, maxAttempts, ...rest] = row
  const [freeCount, createdAt, backoff, timeoutMs, meta, error] = rest
  return {
    id,
    queue,
    kind,
    payload,
    priority,
    uniqueKey,
    state: 'running',
    attempt: attempt + 1,
    maxAttempts,
    freeCount,
    runAt,
    createdAt,
    startedAt,
    finishedAt: null,
    workerId,
    leaseEndsAt,
    backoff,
    timeoutMs,
    meta,
    result: null,
    error,
    cancelRequested: false,
    cancelIgnored: false,
    token: encodeToken({ leaseNo: String(leaseNo + 1), nonce }),
  }
}

function promoteDue(connection: Connection, namespace: string, now: number): number {
  return connection.run(
    `UPDATE job_queue SET state = 'ready', updated_at = ?2
     WHERE rowid IN (SELECT rowid FROM job_queue
       WHERE namespace = ?1 AND state = 'scheduled' AND run_at <= ?2 LIMIT ${sweepLimit})`,
    namespace,
    now,
  )
}

/** The first `limit` ready jobs of all the lines asked for, in order. */
function choose(
  connection: Connection,
  namespace: string,
  { queues, kinds, limit }: ClaimRequest,
  paused: ReadonlySet<string>,
): readonly ReadyRow[] {
  const lines = [...new Set(queues)]
    .filter((queue) => !paused.has(queue))
    .flatMap((queue) => {
      const known = kinds === null ? readyKinds(connection, namespace, queue) : new Set(kinds)
      return [...known].map((kind) => [queue, kind] as const)
    })
  if (lines.length <= mergedLines) return merge(connection, namespace, lines, limit)
  const parts: ReadyRow[] = []
  for (let at = 0; at < lines.length; at += mergedLines) {
    parts.push(...merge(connection, namespace, lines.slice(at, at + mergedLines), limit))
  }
  return parts.sort(byPriorityThenAge).slice(0, limit)
}

function pausedQueues(connection: Connection, namespace: string): ReadonlySet<string> {
  const rows = connection.all<{ queue: string }>(
    'SELECT queue FROM queue_control WHERE namespace = ?1 AND paused_at IS NOT NULL',
    namespace,
  )
  return new Set(rows.map(({ queue }) => queue))
}

/** The kinds that have ready jobs in a queue, found by leaping from one to the next along the index. */
function readyKinds(connection: Connection, namespace: string, queue: string): string[] {
  return connection
    .all<{ kind: string }>(
      `WITH RECURSIVE known (kind) AS (
         SELECT (SELECT min(kind) FROM job_queue WHERE namespace = ?1 AND queue = ?2 AND state = 'ready')
         UNION ALL
         SELECT (SELECT min(kind) FROM job_queue
           WHERE namespace = ?1 AND queue = ?2 AND state = 'ready' AND kind > known.kind)
         FROM known WHERE known.kind IS NOT NULL
       )
       SELECT kind FROM known WHERE kind IS NOT NULL`,
      namespace,
      queue,
    )
    .map(({ kind }) => kind)
}

function merge(
  connection: Connection,
  namespace: string,
  lines: readonly (readonly [queue: string, kind: string])[],
  limit: number,
): readonly ReadyRow[] {
  if (lines.length === 0) return []
  return connection.rows<ReadyRow>(mergeStatement(lines.length), namespace, limit, ...lines.flat())
}

const statements: string[] = []

function mergeStatement(lineCount: number): string {
  const known = statements[lineCount]
  if (known !== undefined) return known
  const lines = Array.from(
    { length: lineCount },
    (_, i) => `
      SELECT ${readyColumns}
      FROM job_queue INDEXED BY job_queue_ready
      WHERE namespace = ?1 AND queue = ?${2 * i + 3} AND kind = ?${2 * i + 4} AND state = 'ready'`,
  )
  const sql = `${lines.join('\n UNION ALL')}\n ORDER BY priority DESC, run_at, id LIMIT ?2`
  statements[lineCount] = sql
  return sql
}

function byPriorityThenAge(
  [priority, runAt, id]: ReadyRow,
  [otherPriority, otherRunAt, otherId]: ReadyRow,
): number {
  return otherPriority - priority || runAt - otherRunAt || (id < otherId ? -1 : 1)
}
