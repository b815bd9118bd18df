import type { JobRecord, JobState, QueueStats } from '../../../jobs/index.ts'
import { expiredError } from '../../expired-error.ts'
import { decodeJobRow, type JobRow } from '../../sql/job-row.ts'
import { decodeLimits } from '../../sql/limit-plan.ts'
import type { Call } from '../connection/calls.ts'
import { nowMs } from '../connection/clock.ts'
import type { Store } from '../engine-store.ts'

/**
 * Looking: plain reads, which never wait. Both tables are read in one statement, so that a job on its way from one to
 * the other is seen once. A job is shown as what it is at this moment, whether or not anybody has acted on it: a due
 * one is ready, one whose lease ran out is ready, dead or cancelled.
 */
export const shown: string = [
  ...[
    'id',
    'queue',
    'kind',
    'payload',
    'priority',
    'unique_key',
    'state',
    'attempt',
    'max_attempts',
    'hand_back_count',
    'snooze_count',
  ],
  ...[
    'run_at',
    'created_at',
    'started_at',
    'finished_at',
    'worker_id',
    'lease_ends_at',
    'backoff',
    'timeout_ms',
    'meta',
  ],
  ...['result', 'error', 'cancel_requested', 'cancel_ignored'],
].join(', ')

const lapsed = `(q.state = 'running' AND q.lease_ends_at <= ${nowMs})`
export const judged: string = `CASE
    WHEN q.state = 'scheduled' AND q.run_at <= ${nowMs} THEN 'ready'
    WHEN ${lapsed} AND c.job_id IS NOT NULL THEN 'cancelled'
    WHEN ${lapsed} AND q.attempt >= q.max_attempts THEN 'dead'
    WHEN ${lapsed} THEN 'ready'
    ELSE CAST(q.state AS CHAR) END`
const isLapsedEnd = `${lapsed} AND (c.job_id IS NOT NULL OR q.attempt >= q.max_attempts)`

/** Live jobs under the names of `shown`; one value: the error of expired leases. */
export function fromQueue({ tables }: Pick<Store, 'tables'>, source = `${tables.queue} q`): string {
  return `SELECT q.id, q.queue, q.kind, q.payload, q.priority, q.unique_key, ${judged} AS state, q.attempt,
      q.max_attempts, q.hand_back_count, q.snooze_count, q.run_at, q.created_at, q.started_at,
      IF(${isLapsedEnd}, q.lease_ends_at, NULL) AS finished_at, q.worker_id,
      IF(q.state = 'running' AND NOT ${lapsed}, q.lease_ends_at, NULL) AS lease_ends_at, q.backoff, q.timeout_ms, q.meta,
      NULL AS result, IF(${lapsed} AND c.job_id IS NULL AND q.attempt >= q.max_attempts, ?, q.error) AS error,
      q.state = 'running' AND NOT ${lapsed} AND c.job_id IS NOT NULL AS cancel_requested, FALSE AS cancel_ignored
    FROM ${source} LEFT JOIN ${tables.cancel} c ON c.namespace = q.namespace AND c.job_id = q.id`
}

/** Ended jobs under the same names. */
export function fromHistory({ tables }: Pick<Store, 'tables'>, source = `${tables.history} h`): string {
  return `SELECT h.id, h.queue, h.kind, h.payload, h.priority, h.unique_key, CAST(h.state AS CHAR) AS state, h.attempt,
      h.max_attempts, h.hand_back_count, h.snooze_count, h.run_at, h.created_at, h.started_at, h.finished_at, h.worker_id,
      NULL AS lease_ends_at, h.backoff, h.timeout_ms, h.meta, h.result, h.error, FALSE AS cancel_requested, h.cancel_ignored
    FROM ${source}`
}

/** What a job is at this moment, and how long until it is due. */
export interface SeenJob {
  readonly state: JobState
  readonly dueInMs: number
}

/** What these jobs are, by id, as `find` tells it; one that is gone is left out. */
export async function readStates(
  { tables, namespace }: Store,
  call: Call,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SeenJob>> {
  if (ids.length === 0) return new Map()
  const rows = await call.rows<{ id: string; state: JobState; due_in_ms: number }>(
    `SELECT q.id, ${judged} AS state, GREATEST(0, q.run_at - ${nowMs}) AS due_in_ms FROM ${tables.queue} q
        LEFT JOIN ${tables.cancel} c ON c.namespace = q.namespace AND c.job_id = q.id WHERE q.namespace = ? AND q.id IN (?)
      UNION ALL SELECT h.id, CAST(h.state AS CHAR), GREATEST(0, h.run_at - ${nowMs}) FROM ${tables.history} h
        WHERE h.namespace = ? AND h.id IN (?)`,
    [namespace, ids, namespace, ids],
  )
  return new Map(rows.map(({ id, state, due_in_ms }) => [id, { state, dueInMs: Number(due_in_ms) }]))
}

export async function find(store: Store, id: string): Promise<JobRecord | undefined> {
  const { calls, namespace } = store
  const [row] = await calls.run('find a job', (call) =>
    call.rows<JobRow>(
      `${fromQueue(store)} WHERE q.namespace = ? AND q.id = ?
        UNION ALL ${fromHistory(store)} WHERE h.namespace = ? AND h.id = ?`,
      [expiredError, namespace, id, namespace, id],
    ),
  )
  return row && decodeJobRow(row)
}

export async function stats({ calls, tables, namespace }: Store): Promise<readonly QueueStats[]> {
  interface Counted {
    readonly queue: string
    readonly state: string
    readonly count: number
    readonly oldest: number
  }
  interface Control {
    readonly queue: string
    readonly paused_at: number | null
    readonly limits: string | null
  }
  const [live, lapses, dead, controls] = await calls.run(
    'count jobs',
    async (call) =>
      (await call.packet([
        [
          // All of it is in the index.
          `SELECT queue, IF(state = 'scheduled' AND sort_at <= ${nowMs}, 'ready', CAST(state AS CHAR)) AS state,
              COUNT(*) AS count, MIN(sort_at) AS oldest
            FROM ${tables.queue} FORCE INDEX (job_queue_order)
            WHERE namespace = ? AND NOT (state = 'running' AND sort_at <= ${nowMs})
            GROUP BY 1, 2`,
          [namespace],
        ],
        [
          `SELECT q.queue, ${judged} AS state, COUNT(*) AS count, MIN(q.run_at) AS oldest
            FROM ${tables.queue} q FORCE INDEX (job_queue_order)
            LEFT JOIN ${tables.cancel} c ON c.namespace = q.namespace AND c.job_id = q.id
            WHERE q.namespace = ? AND q.state = 'running' AND q.sort_at <= ${nowMs}
            GROUP BY 1, 2`,
          [namespace],
        ],
        [
          `SELECT queue, 'dead' AS state, COUNT(*) AS count, 0 AS oldest FROM ${tables.dead} WHERE namespace = ? GROUP BY queue`,
          [namespace],
        ],
        [`SELECT queue, paused_at, limits FROM ${tables.control} WHERE namespace = ?`, [namespace]],
      ])) as [Counted[], Counted[], Counted[], Control[]],
  )
  type Counts = { -readonly [Key in keyof QueueStats]: QueueStats[Key] }
  const queues = new Map<string, Counts>()
  const of = (queue: string) => {
    const known = queues.get(queue) ?? {
      ...{ queue, paused: false, limits: null, scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0 },
      oldestReadyAt: null,
    }
    queues.set(queue, known)
    return known
  }
  for (const { queue, state, count, oldest } of [...live, ...lapses, ...dead]) {
    if (state === 'cancelled') continue
    const counts = of(queue)
    counts[state as 'ready'] += Number(count)
    if (state === 'ready') counts.oldestReadyAt = Math.min(counts.oldestReadyAt ?? Infinity, Number(oldest))
  }
  for (const { queue, paused_at, limits } of controls) {
    const counts = of(queue)
    counts.paused = paused_at !== null
    counts.limits = decodeLimits(limits) ?? null
  }
  return [...queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1))
}
