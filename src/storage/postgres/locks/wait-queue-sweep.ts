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
import { nowMs } from '../connection/columns.ts'
import type { Connections, Statement } from '../connection/connection.ts'
import { commitQueues, PostgresWaitQueue } from './wait-queue-rows.ts'
import type { WaitQueueStatements } from './wait-queue-statements.ts'

/**
 * Brings wait queues to the present whose time has come, and forgets what is over. Any number may sweep at once: a wait queue that
 * somebody has at this moment is passed over, for whoever has it brings it to the present, and all is judged again once
 * a wait queue is locked.
 */
export class WaitQueueSweep {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #statements: WaitQueueStatements
  readonly #sweeping: SweepStatements
  readonly #run: RunRule

  constructor(
    connections: Connections,
    namespace: string,
    schema: string,
    statements: WaitQueueStatements,
    run: RunRule,
  ) {
    this.#connections = connections
    this.#namespace = namespace
    this.#statements = statements
    this.#sweeping = sweepStatements(schema)
    this.#run = run
  }

  async sweep(limit: number, times: LockTimes): Promise<readonly SweptWaitQueue[]> {
    const { due, over } = await this.#look(limit, times.keepMs)
    return sweepQueues(
      due,
      (queue) => this.#sweepOne(queue, times),
      () => this.#forget(over, times.keepMs),
    )
  }

  /** What there is to do, in one trip. */
  async #look(limit: number, keepMs: number): Promise<{ due: readonly DueWaitQueue[]; over: Over }> {
    const [due, over] = await this.#connections.use((client) =>
      Promise.all([
        this.#connections.send<DueRow>(client, this.#sweeping.due, [this.#namespace, limit, mostWaiters]),
        this.#connections.send<Over>(client, this.#sweeping.over, [this.#namespace, keepMs]),
      ]),
    )
    const queues = due.rows.map(({ operation, resource, seqs }) => ({
      operation,
      resource,
      seqs: (seqs ?? []).map(Number),
    }))
    return { due: queues, over: over.rows[0]! }
  }

  async #sweepOne(due: DueWaitQueue, times: LockTimes): Promise<readonly SweptWaitQueue[]> {
    const name = nameWaitQueue(this.#namespace, due)
    const group = groupOf(times.conflicts, due.operation)
    if (group) return sweepGroup(due, group, await this.#whoIsAt(name.queueKey, due.seqs), times, this.#run)
    return this.#connections.useWaiting(async (client) => {
      const queue = new PostgresWaitQueue(this.#connections, client, this.#statements, name)
      try {
        const opened = await queue.tryOpen(due.seqs)
        if (!opened) {
          await client.query('ROLLBACK')
          return []
        }
        const swept = await sweepBook(due, opened.buffer, opened.waiters, times)
        await commitQueues(client, [[queue, opened.buffer.lastWrites()]])
        return swept
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined)
        throw error
      }
    })
  }

  async #whoIsAt(queueKey: string, seqs: readonly number[]): Promise<readonly Requester[]> {
    if (seqs.length === 0) return []
    const { rows } = await this.#connections.run<{ node: string; request_id: string }>(
      this.#statements.atPositions,
      [queueKey, seqs],
    )
    return rows.map(({ node, request_id: requestId }) => ({ node, requestId }))
  }

  async #forget({ outcomes, results, queues }: Over, keepMs: number): Promise<void> {
    const { outcomes: oldOutcomes, results: oldResults, queues: oldQueues } = this.#sweeping
    if (outcomes) await this.#inBites(oldOutcomes, [this.#namespace], 1_000)
    if (results) await this.#inBites(oldResults, [this.#namespace], 100)
    // Each of these is an advisory lock until the statement ends, and the server has room for a few thousand.
    if (queues) await this.#inBites(oldQueues, [this.#namespace, keepMs], 100)
  }

  async #inBites(statement: Statement, values: readonly unknown[], bite: number): Promise<void> {
    for (let bites = 0; bites < mostBites; bites++) {
      const { rowCount } = await this.#connections.run(statement, [bite, ...values])
      if ((rowCount ?? 0) < bite) return
    }
  }
}

/** How many waiters one sweep ends at most. */
const mostWaiters = 1_000
/** The rest is left to the next sweep. */
const mostBites = 10

interface DueRow {
  readonly operation: string
  readonly resource: string
  readonly seqs: readonly string[] | null
}

/** Whether there is something to forget. */
interface Over {
  readonly outcomes: boolean
  readonly results: boolean
  readonly queues: boolean
}

type SweepStatements = Record<'due' | 'over' | 'outcomes' | 'results' | 'queues', Statement>

function sweepStatements(s: string): SweepStatements {
  const now = `(SELECT ${nowMs})`
  const kept = (table: string) => `SELECT FROM ${s}.${table} WHERE namespace = $1 AND kept_until <= ${now}`
  const idle = (namespace: string, keepMs: string) =>
    `l.namespace = ${namespace} AND l.idle_since <= ${now} - ${keepMs}::bigint AND l.grant_from <= ${now}`
  const forget = (table: string) => ({
    name: `sb_forget_${table}`,
    text: `
DELETE FROM ${s}.${table} WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM ${s}.${table} WHERE namespace = $2 AND kept_until <= ${now}
  ORDER BY kept_until LIMIT $1 FOR UPDATE SKIP LOCKED))`,
  })
  return {
    due: {
      name: 'sb_sweep_due',
      text: `
SELECT l.operation, l.resource, array_agg(due.seq) FILTER (WHERE due.seq IS NOT NULL) AS seqs
FROM (
  (SELECT queue_key, due_at, NULL::bigint AS seq FROM ${s}.lock_queue
   WHERE namespace = $1 AND due_at <= ${now} ORDER BY due_at LIMIT $2)
  UNION ALL
  (SELECT queue_key, due_at, seq FROM ${s}.lock_waiter
   WHERE namespace = $1 AND due_at <= ${now} ORDER BY due_at LIMIT $3)
) due
JOIN ${s}.lock_queue l ON l.queue_key = due.queue_key
GROUP BY l.queue_key ORDER BY min(due.due_at) LIMIT $2`,
    },
    over: {
      name: 'sb_sweep_over',
      text: `
SELECT EXISTS (${kept('lock_outcome')}) AS outcomes, EXISTS (${kept('lock_result')}) AS results,
       EXISTS (SELECT FROM ${s}.lock_queue l WHERE ${idle('$1', '$2')}) AS queues`,
    },
    outcomes: forget('lock_outcome'),
    results: forget('lock_result'),
    // Whoever has a wait queue may have read it and be about to write, so only wait queues that nobody has are forgotten; and those
    // that somebody changed between the look and the lock are not: every change, and every outcome, brings a revision.
    queues: {
      name: 'sb_forget_lock_queue',
      text: `
WITH idle AS MATERIALIZED (
  SELECT l.queue_key, l.revision FROM ${s}.lock_queue l
  WHERE ${idle('$2', '$3')} AND NOT EXISTS (SELECT FROM ${s}.lock_outcome o WHERE o.queue_key = l.queue_key)
  ORDER BY l.idle_since LIMIT $1
), mine AS MATERIALIZED (
  SELECT * FROM idle WHERE pg_try_advisory_xact_lock(hashtextextended(queue_key, 0))
)
DELETE FROM ${s}.lock_queue l USING mine WHERE l.queue_key = mine.queue_key AND l.revision = mine.revision`,
    },
  }
}
