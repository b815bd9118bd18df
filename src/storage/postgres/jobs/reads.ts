import type { JobRecord, ListQuery, QueueStats, ReachQuery } from '../../../jobs/index.ts'
import { expiredError } from '../../expired-error.ts'
import { decodeJobRow, type JobRow } from '../../sql/job-row.ts'
import { decodeLimits } from '../../sql/limit-plan.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import { aboveAll, type ListStatement, listStatement } from './lists.ts'
import type { Space } from './namespace-memory.ts'

/**
 * Looking at jobs. They are in three places; each statement that answers "no such job" looks into all three at one
 * moment, so a job on its way from one to the next is never missed. Leases that ran out are shown as what they will be.
 */
export class Reads {
  readonly #sender: Sender
  readonly #namespace: string
  readonly #statements: ReadStatements

  constructor(sender: Sender, { namespace, statements }: Space) {
    this.#sender = sender
    this.#namespace = namespace
    this.#statements = statements.reads
  }

  async find(id: string): Promise<JobRecord | undefined> {
    // Most jobs asked for are not running, and looking into leases costs more.
    const { rows } = await this.#sender.run<JobRow>(this.#statements.findResting, [this.#namespace, id])
    if (rows[0]) return decodeJobRow(rows[0])
    const anywhere = await this.#sender.run<JobRow>(this.#statements.findAnywhere, [
      this.#namespace,
      id,
      expiredError,
    ])
    return anywhere.rows[0] && decodeJobRow(anywhere.rows[0])
  }

  async list(query: ListQuery): Promise<readonly JobRecord[]> {
    const { statement, values } = this.#statements.list(query)
    const { rows } = await this.#sender.run<JobRow>(statement, [this.#namespace, expiredError, ...values])
    return rows.map(decodeJobRow)
  }

  async reach({ before, rows, among }: ReachQuery): Promise<string | null> {
    const { rows: found } = await this.#sender.run<{ id: string | null }>(this.#statements.reach(among), [
      this.#namespace,
      before ?? aboveAll,
      rows - 1,
    ])
    return found[0]!.id
  }

  async stats(): Promise<readonly QueueStats[]> {
    const { rows } = await this.#sender.run<Counted & Record<string, unknown>>(this.#statements.stats, [
      this.#namespace,
    ])
    return rows.map(({ queue, paused, limits, scheduled, ready, waiting, running, dead, oldestReadyAt }) => ({
      queue,
      paused,
      limits: decodeLimits(limits) ?? null,
      scheduled: Number(scheduled),
      ready: Number(ready),
      waiting: Number(waiting),
      running: Number(running),
      dead: Number(dead),
      oldestReadyAt: oldestReadyAt === null ? null : Number(oldestReadyAt),
    }))
  }
}

/** A row of the statistics, with the limits as they are kept. */
type Counted = Omit<QueueStats, 'limits'> & { readonly limits: string | null }

export interface ReadStatements {
  readonly findResting: Statement
  readonly findAnywhere: Statement
  list(query: ListQuery): ListStatement
  reach(among: ReachQuery['among']): Statement
  readonly stats: Statement
}

export function readStatements(s: string): ReadStatements {
  // Each has all the names: whichever of them a list begins with names its columns.
  const pending = `
SELECT p.id, p.queue, p.kind, p.payload, p.priority, p.unique_key,
       CASE WHEN p.state = 'waiting' THEN 'waiting' WHEN p.run_at <= ${nowMs} THEN 'ready' ELSE 'scheduled' END AS state,
       p.attempt, p.max_attempts, p.hand_back_count, p.snooze_count, p.run_at, p.created_at, p.started_at,
       NULL::bigint AS finished_at, p.worker_id, NULL::bigint AS lease_ends_at, p.backoff, p.timeout_ms, p.meta, p.result, p.error,
       false AS cancel_requested, false AS cancel_ignored
FROM ${s}.job_pending p WHERE p.namespace = $1`
  const history = `
SELECT h.id, h.queue, h.kind, h.payload, h.priority, h.unique_key, h.state, h.attempt, h.max_attempts,
       h.hand_back_count, h.snooze_count, h.run_at, h.created_at, h.started_at, h.finished_at, h.worker_id,
       NULL::bigint AS lease_ends_at, h.backoff, h.timeout_ms, h.meta, h.result, h.error, false AS cancel_requested, h.cancel_ignored
FROM ${s}.job_history h WHERE h.namespace = $1`
  const leased = (expired: string) => `
SELECT q.id, q.queue, q.kind, q.payload, q.priority, q.unique_key, q.state, q.attempt, q.max_attempts,
       q.hand_back_count, q.snooze_count, q.run_at, q.created_at, q.started_at,
       CASE WHEN q.state IN ('dead', 'cancelled') THEN q.lease_ends_at END AS finished_at, q.worker_id,
       CASE WHEN q.state = 'running' THEN q.lease_ends_at END AS lease_ends_at, q.backoff, q.timeout_ms, q.meta, q.result,
       CASE WHEN q.state = 'dead' THEN ${expired} ELSE q.error END AS error,
       q.cancel_requested AND q.state = 'running' AS cancel_requested, false AS cancel_ignored
FROM ${s}.job_queue q WHERE q.namespace = $1 AND q.lease_no IS NOT NULL`
  // The time is read once, and queues alone are groups: else no planner would share a million rows among its workers.
  const isDue = `state <> 'waiting' AND run_at <= (SELECT ${nowMs})`
  return {
    findResting: {
      name: 'sb_find_resting',
      text: `${pending} AND p.id = $2 UNION ALL ${history} AND h.id = $2 LIMIT 1`,
    },
    findAnywhere: {
      name: 'sb_find',
      text: `${pending} AND p.id = $2 UNION ALL ${history} AND h.id = $2 UNION ALL ${leased('$3')} AND q.id = $2 LIMIT 1`,
    },
    list: (query) => listStatement({ pending, history, leased: leased('$2') }, query),
    reach: (among) => ({
      name: `sb_reach_${among ?? 'any'}`,
      text: `
SELECT max(id) AS id FROM (
${[...(among === 'ended' ? [] : ['job_pending']), ...(among === 'live' ? [] : ['job_history'])]
  .map(
    (table) =>
      `(SELECT id FROM ${s}.${table} WHERE namespace = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3)`,
  )
  .join('\nUNION ALL\n')}
) places`,
    }),
    stats: {
      name: 'sb_stats',
      text: `
WITH pending AS (
  SELECT queue, count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE ${isDue}) AS ready,
         count(*) FILTER (WHERE state <> 'waiting') AS timed, min(run_at) FILTER (WHERE ${isDue}) AS oldest
  FROM ${s}.job_pending WHERE namespace = $1 GROUP BY queue
), counted AS (
  SELECT queue, each.state, each.jobs, each.oldest
  FROM pending CROSS JOIN LATERAL (VALUES
    ('waiting', waiting, NULL::bigint), ('ready', ready, oldest), ('scheduled', timed - ready, NULL)) each (state, jobs, oldest)
  WHERE each.jobs > 0
  UNION ALL
  SELECT queue, state, count(*), min(run_at) FROM ${s}.job_queue WHERE namespace = $1 AND lease_no IS NOT NULL GROUP BY 1, 2
  UNION ALL
  SELECT queue, state, count(*), NULL FROM ${s}.job_history WHERE namespace = $1 AND state = 'dead' GROUP BY 1, 2
), control AS MATERIALIZED (
  SELECT queue, paused_at IS NOT NULL AS paused, limits FROM ${s}.queue_control
  WHERE namespace = $1 AND (paused_at IS NOT NULL OR limits IS NOT NULL)
)
SELECT names.queue, coalesce(bool_or(r.paused), false) AS paused, min(r.limits) AS limits,
       coalesce(sum(c.jobs) FILTER (WHERE c.state = 'scheduled'), 0) AS scheduled,
       coalesce(sum(c.jobs) FILTER (WHERE c.state = 'ready'), 0) AS ready,
       coalesce(sum(c.jobs) FILTER (WHERE c.state = 'waiting'), 0) AS waiting,
       coalesce(sum(c.jobs) FILTER (WHERE c.state = 'running'), 0) AS running,
       coalesce(sum(c.jobs) FILTER (WHERE c.state = 'dead'), 0) AS dead,
       min(c.oldest) FILTER (WHERE c.state = 'ready') AS "oldestReadyAt"
FROM (SELECT queue FROM counted WHERE state <> 'cancelled' UNION SELECT queue FROM control) names
LEFT JOIN counted c ON c.queue = names.queue
LEFT JOIN control r ON r.queue = names.queue
GROUP BY names.queue ORDER BY names.queue COLLATE "C"`,
    },
  }
}
