import type {
  AttemptOutcome,
  JobRecord,
  JobState,
  LeaseRef,
  ListQuery,
  QueueStats,
  ReachQuery,
} from '../../../jobs/index.ts'
import { isOwn, isOwnQueue } from '../../own-queue.ts'
import type { JobRow } from '../../sql/job-row.ts'
import { decodeLimits } from '../../sql/limit-plan.ts'
import { decodeToken } from '../../token.ts'
import { type Connection, readNow } from '../connection/connection.ts'
import { decodeRow, historyColumns, liveColumns } from './record.ts'

/** What is only read. Each answer is one statement over both tables, so a job that moves is never missed or doubled. */
export function findJob(connection: Connection, namespace: string, id: string): JobRecord | undefined {
  const row = connection.get<JobRow>(
    `SELECT ${liveColumns} FROM job_queue q WHERE q.namespace = ?1 AND q.id = ?2
     UNION ALL
     SELECT ${historyColumns} FROM job_history h WHERE h.namespace = ?1 AND h.id = ?2`,
    namespace,
    id,
  )
  return row && decodeRow(row, readNow(connection))
}

const lapsed = `q.state = 'running' AND q.lease_ends_at <= ?6`
const cancelled = `EXISTS (SELECT 1 FROM job_cancel c
    WHERE c.namespace = q.namespace AND c.job_id = q.id AND c.lease_no = q.lease_no)`

interface Place {
  readonly from: string
  readonly where: string
}
const queue = 'job_queue q'
const history = 'job_history h'
// Named, because SQLite would rather walk all ids in their order than sort the few rows that are meant.
const running = 'job_queue q INDEXED BY job_queue_running'
const waiting = 'job_queue q INDEXED BY job_queue_waiting'
const unfinished = 'job_history h INDEXED BY job_history_unfinished'
const ownLive = 'job_queue q INDEXED BY job_queue_own'
const ownEnded = 'job_history h INDEXED BY job_history_own'

/** Where live and ended jobs are found that are in a state at this moment; null: none of them can be. */
const places: Readonly<Record<JobState | 'any', { live: Place | null; ended: Place | null }>> = {
  any: { live: { from: queue, where: 'TRUE' }, ended: { from: history, where: 'TRUE' } },
  scheduled: { live: { from: queue, where: `q.state = 'scheduled' AND q.run_at > ?6` }, ended: null },
  ready: {
    live: {
      from: queue,
      where: `(q.state = 'ready' OR (q.state = 'scheduled' AND q.run_at <= ?6)
        OR (${lapsed} AND q.attempt < q.max_attempts AND NOT ${cancelled}))`,
    },
    ended: null,
  },
  waiting: { live: { from: waiting, where: `q.state = 'waiting'` }, ended: null },
  running: { live: { from: running, where: `q.state = 'running' AND q.lease_ends_at > ?6` }, ended: null },
  completed: { live: null, ended: { from: history, where: `h.state = 'completed'` } },
  // The second half of each `ended` is what SQLite needs to see before it may use that index.
  dead: {
    live: { from: running, where: `${lapsed} AND q.attempt >= q.max_attempts AND NOT ${cancelled}` },
    ended: { from: unfinished, where: `h.state = 'dead' AND h.state <> 'completed'` },
  },
  cancelled: {
    live: { from: running, where: `${lapsed} AND ${cancelled}` },
    ended: { from: unfinished, where: `h.state = 'cancelled' AND h.state <> 'completed'` },
  },
}

export function listJobs(connection: Connection, namespace: string, query: ListQuery): readonly JobRecord[] {
  const now = readNow(connection)
  const { live, ended } = placesOf(query)
  const parts: string[] = []
  if (live) parts.push(`SELECT ${liveColumns} FROM ${live.from} WHERE ${matches('q')} AND ${live.where}`)
  if (ended)
    parts.push(`SELECT ${historyColumns} FROM ${ended.from} WHERE ${matches('h')} AND ${ended.where}`)
  const rows = connection.all<JobRow>(
    // ?6 is named once more, for a list of ended jobs has no other use for it.
    `${parts.join('\n UNION ALL ')}\n ORDER BY id DESC LIMIT iif(?6 IS NULL, 0, ?5)`,
    namespace,
    // Every blob is greater than every text: with no page before this one, all ids are below it.
    query.before ?? new Uint8Array(0),
    query.queue ?? null,
    query.kind ?? null,
    query.limit,
    now,
    query.downTo ?? '',
  )
  return rows.map((row) => decodeRow(row, now))
}

/** Our own queues are few among all, and have indexes of nothing else. */
function placesOf({ state, queue: named }: ListQuery): (typeof places)['any'] {
  const { live, ended } = places[state ?? 'any']
  if (named === undefined || !isOwnQueue(named)) return { live, ended }
  return {
    live: live && { from: ownLive, where: `${live.where} AND ${isOwn('q.queue')}` },
    ended:
      ended?.from === history ? { from: ownEnded, where: `${ended.where} AND ${isOwn('h.queue')}` } : ended,
  }
}

export function reachJobs(
  connection: Connection,
  namespace: string,
  { before, rows, among }: ReachQuery,
): string | null {
  const placeIn = (table: string) =>
    `SELECT * FROM (SELECT id FROM ${table} WHERE namespace = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)`
  const places = [
    ...(among === 'ended' ? [] : [placeIn('job_queue')]),
    ...(among === 'live' ? [] : [placeIn('job_history')]),
  ]
  const { id } = connection.get<{ id: string | null }>(
    `SELECT max(id) AS id FROM (${places.join(' UNION ALL ')})`,
    namespace,
    before ?? new Uint8Array(0),
    rows - 1,
  )!
  return id
}

function matches(table: 'q' | 'h'): string {
  return `${table}.namespace = ?1 AND ${table}.id < ?2 AND ${table}.id >= ?7 AND (?3 IS NULL OR ${table}.queue = ?3)
      AND (?4 IS NULL OR ${table}.kind = ?4)`
}

const open: Pick<QueueStats, 'paused' | 'limits'> = { paused: false, limits: null }

type Counts = { -readonly [Key in keyof QueueStats]: QueueStats[Key] }

/** How many ready jobs of one kind a queue has, counted elsewhere: see ready-counts.ts. */
export interface ReadyCount {
  readonly queue: string
  readonly count: number
  readonly oldest: number
}

/**
 * Counted along the indexes; of queues with limits, or paused ones, also when they have no jobs. `ready` has those without
 * a key of the limits where they were counted before.
 */
export function countJobs(
  connection: Connection,
  namespace: string,
  ready?: readonly ReadyCount[],
): readonly QueueStats[] {
  const controls = connection.all<{ queue: string; paused_at: number | null; limits: string | null }>(
    `SELECT queue, paused_at, limits FROM queue_control
     WHERE namespace = ?1 AND (paused_at IS NOT NULL OR limits IS NOT NULL)`,
    namespace,
  )
  const counted = connection.all<{ queue: string; state: JobState; count: number; oldest: number }>(
    `SELECT queue, 'ready' AS state, count(*) AS count, min(run_at) AS oldest
     FROM job_queue INDEXED BY job_queue_ready
     WHERE ?3 AND namespace = ?1 AND state = 'ready' AND limit_key IS NULL GROUP BY queue
     UNION ALL
     SELECT queue, 'ready', count(*), min(run_at) FROM job_queue INDEXED BY job_queue_keyed
     WHERE namespace = ?1 AND state = 'ready' AND limit_key IS NOT NULL GROUP BY queue
     UNION ALL
     SELECT queue, 'waiting', count(*), 0 FROM job_queue INDEXED BY job_queue_waiting
     WHERE namespace = ?1 AND state = 'waiting' GROUP BY queue
     UNION ALL
     SELECT queue, iif(run_at <= ?2, 'ready', 'scheduled'), count(*), min(run_at) FROM job_queue
     WHERE namespace = ?1 AND state = 'scheduled' GROUP BY 1, 2
     UNION ALL
     SELECT queue, CASE WHEN lease_ends_at > ?2 THEN 'running' WHEN ${cancelled} THEN 'cancelled'
       WHEN attempt < max_attempts THEN 'ready' ELSE 'dead' END, count(*), min(run_at)
     FROM job_queue q WHERE namespace = ?1 AND state = 'running' GROUP BY 1, 2
     UNION ALL
     SELECT queue, 'dead', count(*), 0 FROM job_history
     WHERE namespace = ?1 AND state = 'dead' AND state <> 'completed' GROUP BY queue`,
    namespace,
    readNow(connection),
    ready === undefined ? 1 : 0,
  )
  for (const { queue, count, oldest } of ready ?? []) counted.push({ queue, state: 'ready', count, oldest })
  const queues = new Map<string, Counts>()
  const of = (queue: string, control = open): Counts => {
    const none = { scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0 }
    const known = queues.get(queue) ?? { queue, ...control, ...none, oldestReadyAt: null }
    queues.set(queue, known)
    return known
  }
  for (const { queue, paused_at: pausedAt, limits } of controls) {
    of(queue, { paused: pausedAt !== null, limits: decodeLimits(limits) ?? null })
  }
  for (const { queue, state, count, oldest } of counted) {
    const counts = of(queue)
    if (state === 'ready') counts.oldestReadyAt = Math.min(counts.oldestReadyAt ?? oldest, oldest)
    if (state !== 'completed' && state !== 'cancelled') counts[state] += count
  }
  return [...queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1))
}

interface LeaseRow {
  readonly state: JobState
  readonly lease_no: number
  readonly lease_nonce: string | null
  readonly lease_ends_at: number | null
  readonly settled_tokens: string
}

/** What has become of an attempt. How a row remembers it is told in lease.ts. */
export function findOutcome(
  connection: Connection,
  namespace: string,
  { jobId, token }: LeaseRef,
  now: number,
): AttemptOutcome {
  const row =
    decodeToken(token) &&
    connection.get<LeaseRow>(
      `SELECT state, lease_no, lease_nonce, lease_ends_at, settled_tokens FROM job_queue
       WHERE namespace = ?1 AND id = ?2
       UNION ALL
       SELECT state, lease_no, lease_nonce, NULL, settled_tokens FROM job_history
       WHERE namespace = ?1 AND id = ?2`,
      namespace,
      jobId,
    )
  if (!row) return 'lost'
  if (row.settled_tokens.split(' ').includes(token)) return 'settled'
  if (row.lease_nonce === null || token !== `${row.lease_no}.${row.lease_nonce}`) return 'lost'
  if (row.state !== 'running') return 'settled'
  return row.lease_ends_at! > now ? 'held' : 'lost'
}
