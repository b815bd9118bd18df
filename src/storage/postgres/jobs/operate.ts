import type { CancelAnswer, QueueLimits, RetryAnswer } from '../../../jobs/index.ts'
import { keptForRetry } from '../../sql/log-row.ts'
import { countsRunning, countsUntil } from '../claim/limit-claimer.ts'
import type { Reclaimer } from '../claim/reclaim.ts'
import { nowMs } from '../connection/columns.ts'
import type { Statement } from '../connection/connection.ts'
import type { Sender } from '../connection/sender.ts'
import { endCancelled } from './end-cancelled.ts'
import { idBound } from './id-time.ts'
import type { Space } from './namespace-memory.ts'

/**
 * What operators do: cancel, try again, pause, limit, prune. A job may be on its way from one place to the next while it is
 * looked for; each statement acts on what it finds where it is, and when nobody has it, all are asked once more.
 */
export class Operations {
  readonly #sender: Sender
  readonly #namespace: string
  readonly #statements: OperationStatements
  readonly #reclaimer: Reclaimer

  constructor(sender: Sender, { namespace, statements }: Space, reclaimer: Reclaimer) {
    this.#sender = sender
    this.#namespace = namespace
    this.#statements = statements.operations
    this.#reclaimer = reclaimer
  }

  async cancel(id: string): Promise<CancelAnswer | undefined> {
    await this.#reclaimer.reclaim(manyJobs)
    for (let looks = 0; looks < 3; looks++) {
      if (await this.#took(this.#statements.cancelPending, id)) return cancelled
      if (await this.#took(this.#statements.askCancel, id)) {
        // It may have gone back in line just before the request could be seen; then it ends there.
        if (await this.#took(this.#statements.cancelPending, id)) return cancelled
        return { state: 'running', cancelRequested: true }
      }
      const { rows } = await this.#run<{ state: CancelAnswer['state'] }>(this.#statements.ended, [id])
      if (rows[0]) return { state: rows[0].state, cancelRequested: false }
    }
    return undefined
  }

  async retry(id: string): Promise<RetryAnswer | undefined> {
    await this.#reclaimer.reclaim(manyJobs)
    for (let looks = 0; looks < 3; looks++) {
      if (await this.#took(this.#statements.retryPending, id)) return { outcome: 'ready' }
      if (await this.#took(this.#statements.retryEnded, id)) return { outcome: 'ready' }
      if (await this.#took(this.#statements.running, id)) return { outcome: 'running' }
      const { rows } = await this.#run(this.#statements.ended, [id])
      // It is in history and did not come back: another live job has its key.
      if (rows[0] && looks > 0) return { outcome: 'taken' }
    }
    return undefined
  }

  async retryDead(query: { queue?: string; kind?: string; limit: number }): Promise<number> {
    await this.#reclaimer.reclaim(manyJobs)
    let total = 0
    while (total < query.limit) {
      const most = Math.min(query.limit - total, 1_000)
      const { rows } = await this.#run<{ took: number }>(this.#statements.retryDead, [
        query.queue ?? null,
        query.kind ?? null,
        most,
      ])
      const { took } = rows[0]!
      total += took
      if (took === 0) break
    }
    return total
  }

  async pause(queue: string): Promise<void> {
    await this.#run(this.#statements.pause, [queue])
  }

  async resume(queue: string): Promise<void> {
    await this.#run(this.#statements.resume, [queue])
    await this.#run(this.#statements.clearControl, [queue])
  }

  /** Whoever claims from the queue now goes first, and whoever does later goes by this. */
  async limit(queue: string, limits: QueueLimits | null): Promise<void> {
    const given = [this.#namespace, queue]
    const isCounted = limits !== null && countsRunning(limits)
    await this.#sender.allOrNothingWaiting(
      (client) => {
        const send = (statement: Statement, ...values: unknown[]) =>
          this.#sender.send(client, statement, [...given, ...values])
        if (limits === null) {
          return Promise.all([
            send(this.#statements.unlimit),
            send(this.#statements.dropSlots),
            send(this.#statements.dropStarts),
            send(this.#statements.clearControl),
          ])
        }
        return Promise.all([
          send(this.#statements.limit, JSON.stringify(limits), isCounted, adoptMs),
          ...(isCounted ? [] : [send(this.#statements.dropSlots)]),
          send(this.#statements.keepStarts, Math.max(countsUntil(limits, 0), countsUntil(limits.perKey, 0))),
        ])
      },
      () => true,
    )
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const bound = idBound(Date.now() - olderThanMs + clockSlackMs)
    const { rowCount } = await this.#run(this.#statements.prune, [olderThanMs, limit, bound])
    return rowCount ?? 0
  }

  #run<Row extends Record<string, unknown>>(statement: Statement, values: unknown[]) {
    return this.#sender.run<Row>(statement, [this.#namespace, ...values])
  }

  async #took(statement: Statement, id: string): Promise<boolean> {
    const { rows } = await this.#run<{ took: number }>(statement, [id])
    return rows[0]!.took > 0
  }
}

const manyJobs = 100_000
/** How long a claim may be under way that does not know of limits just set. */
const adoptMs = 60_000
/** How far the clock of a host that made ids may be ahead before its jobs are pruned later than asked. */
const clockSlackMs = 3_600_000
const cancelled: CancelAnswer = { state: 'cancelled', cancelRequested: false }

export interface OperationStatements {
  readonly cancelPending: Statement
  readonly askCancel: Statement
  readonly ended: Statement
  readonly running: Statement
  readonly retryPending: Statement
  readonly retryEnded: Statement
  readonly retryDead: Statement
  readonly pause: Statement
  readonly resume: Statement
  /** Removes the row of a queue that is neither paused nor limited. */
  readonly clearControl: Statement
  readonly limit: Statement
  readonly unlimit: Statement
  readonly dropSlots: Statement
  readonly dropStarts: Statement
  readonly keepStarts: Statement
  readonly prune: Statement
}

export function operationStatements(s: string): OperationStatements {
  // From history back in line, for the rows of `old`: with its key if it has one, or not at all.
  /** What leaves little room for the next attempts of a job that is begun anew is forgotten. */
  const madeRoom = (begun: string) => `
full_notes AS (
  DELETE FROM ${s}.job_progress p USING ${begun} b WHERE p.namespace = $1 AND p.job_id = b.id
    AND (p.line_count > ${keptForRetry.lineCount} OR p.line_bytes > ${keptForRetry.lineBytes})
  RETURNING p.job_id, p.attempt
),
unsaid AS (
  DELETE FROM ${s}.job_log l USING full_notes f
  WHERE l.namespace = $1 AND l.job_id = f.job_id AND l.attempt = f.attempt
)`
  const back = `
clock AS MATERIALIZED (SELECT ${nowMs} AS now),
key AS (
  INSERT INTO ${s}.job_unique (namespace, queue, unique_key, job_id)
  SELECT $1, queue, unique_key, id FROM old WHERE unique_key IS NOT NULL ORDER BY queue, unique_key, id
  ON CONFLICT DO NOTHING
  RETURNING job_id
),
gone AS (
  DELETE FROM ${s}.job_history h USING old
  WHERE h.namespace = $1 AND h.id = old.id
    AND (old.unique_key IS NULL OR EXISTS (SELECT FROM key WHERE key.job_id = old.id))
  RETURNING h.*
),
-- History no longer shows how that attempt ended, and it may still be asked for.
remembered AS (
  INSERT INTO ${s}.job_end (lease_no, job_id, ended_at, how)
  SELECT lease_no, id, clock.now, 'returned' FROM clock, gone WHERE lease_no IS NOT NULL
  ON CONFLICT DO NOTHING
),
uncancelled AS (
  DELETE FROM ${s}.job_cancel c USING gone WHERE c.namespace = $1 AND c.job_id = gone.id
),
back AS (
  INSERT INTO ${s}.job_pending (namespace, id, queue, kind, payload, priority, unique_key, state, attempt, max_attempts,
    hand_back_count, snooze_count, run_at, created_at, updated_at, backoff, timeout_ms, error, meta)
  SELECT $1, id, queue, kind, payload, priority, unique_key, 'ready', 0, max_attempts, 0, 0, clock.now, created_at,
    clock.now, backoff, timeout_ms, error, meta
  FROM clock, gone
),${madeRoom('gone')}
SELECT count(*)::int AS took FROM gone`
  return {
    cancelPending: {
      name: 'sb_cancel_pending',
      text: `
WITH gone AS (
  DELETE FROM ${s}.job_pending WHERE namespace = $1 AND id = $2 RETURNING *
),
${endCancelled(s, 'error')}
SELECT count(*)::int AS took FROM gone`,
    },
    askCancel: {
      name: 'sb_ask_cancel',
      text: `
WITH asked AS (
  INSERT INTO ${s}.job_cancel (namespace, job_id, lease_no, asked_at)
  SELECT namespace, id, lease_no, ${nowMs} FROM ${s}.job_queue
  WHERE namespace = $1 AND id = $2 AND lease_no IS NOT NULL
  ON CONFLICT (namespace, job_id) DO UPDATE SET lease_no = excluded.lease_no
  RETURNING job_id
)
SELECT count(*)::int AS took FROM asked`,
    },
    ended: { name: 'sb_ended', text: `SELECT state FROM ${s}.job_history WHERE namespace = $1 AND id = $2` },
    running: {
      name: 'sb_running',
      text: `SELECT count(*)::int AS took FROM ${s}.job_queue WHERE namespace = $1 AND id = $2 AND lease_no IS NOT NULL`,
    },
    retryPending: {
      name: 'sb_retry_pending',
      text: `
WITH clock AS MATERIALIZED (SELECT ${nowMs} AS now),
due AS (
  UPDATE ${s}.job_pending SET state = 'ready', attempt = 0, hand_back_count = 0, snooze_count = 0, run_at = clock.now,
    updated_at = clock.now, started_at = NULL, worker_id = NULL, result = NULL
  FROM clock WHERE namespace = $1 AND id = $2 RETURNING id
),
uncancelled AS (
  DELETE FROM ${s}.job_cancel c USING due WHERE c.namespace = $1 AND c.job_id = due.id
),${madeRoom('due')}
SELECT count(*)::int AS took FROM due`,
    },
    retryEnded: {
      name: 'sb_retry_ended',
      text: `
WITH old AS MATERIALIZED (
  SELECT id, queue, unique_key FROM ${s}.job_history WHERE namespace = $1 AND id = $2 FOR UPDATE
),${back}`,
    },
    retryDead: {
      name: 'sb_retry_dead',
      text: `
WITH old AS MATERIALIZED (
  SELECT h.id, h.queue, h.unique_key FROM ${s}.job_history h
  WHERE h.namespace = $1 AND h.state = 'dead' AND ($2::text IS NULL OR h.queue = $2)
    AND ($3::text IS NULL OR h.kind = $3)
    AND (h.unique_key IS NULL OR NOT EXISTS (
      SELECT FROM ${s}.job_unique u
      WHERE u.namespace = $1 AND u.queue = h.queue AND u.unique_key = h.unique_key))
  ORDER BY h.id LIMIT $4 FOR UPDATE SKIP LOCKED
),${back}`,
    },
    pause: {
      name: 'sb_pause',
      text: `
INSERT INTO ${s}.queue_control (namespace, queue, paused_at) VALUES ($1, $2, ${nowMs})
ON CONFLICT (namespace, queue) DO UPDATE SET paused_at = coalesce(queue_control.paused_at, excluded.paused_at)`,
    },
    resume: {
      name: 'sb_resume',
      text: `UPDATE ${s}.queue_control SET paused_at = NULL WHERE namespace = $1 AND queue = $2`,
    },
    clearControl: {
      name: 'sb_clear_control',
      text: `
DELETE FROM ${s}.queue_control WHERE namespace = $1 AND queue = $2 AND paused_at IS NULL AND limits IS NULL`,
    },
    // What runs is looked for only if it was not counted before.
    limit: {
      name: 'sb_limit',
      text: `
INSERT INTO ${s}.queue_control AS c (namespace, queue, limits, is_counted, adopt_until)
VALUES ($1, $2, $3, $4, CASE WHEN $4 THEN ${nowMs} + $5::bigint END)
ON CONFLICT (namespace, queue) DO UPDATE SET limits = excluded.limits, is_counted = excluded.is_counted,
  adopt_until = CASE WHEN c.is_counted AND excluded.is_counted THEN c.adopt_until ELSE excluded.adopt_until END`,
    },
    unlimit: {
      name: 'sb_unlimit',
      text: `
UPDATE ${s}.queue_control SET limits = NULL, is_counted = false, adopt_until = NULL, key_position = NULL
WHERE namespace = $1 AND queue = $2`,
    },
    dropSlots: {
      name: 'sb_drop_slots',
      text: `DELETE FROM ${s}.job_slot WHERE namespace = $1 AND queue = $2`,
    },
    dropStarts: {
      name: 'sb_drop_starts',
      text: `DELETE FROM ${s}.job_rate WHERE namespace = $1 AND queue = $2`,
    },
    // They may count for longer now.
    keepStarts: {
      name: 'sb_keep_starts',
      text: `
UPDATE ${s}.job_rate SET expires_at = ${nowMs} + $3::bigint
WHERE namespace = $1 AND queue = $2 AND expires_at < ${nowMs} + $3::bigint`,
    },
    prune: {
      name: 'sb_prune',
      text: `
-- Materialised: as a join's inner side the choice would be made anew for every row, and the limit with it.
WITH old AS MATERIALIZED (
  SELECT id FROM ${s}.job_history
  WHERE namespace = $1 AND id < $4 AND finished_at < ${nowMs} - $2::bigint ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
)
DELETE FROM ${s}.job_history h USING old WHERE h.namespace = $1 AND h.id = old.id`,
    },
  }
}
