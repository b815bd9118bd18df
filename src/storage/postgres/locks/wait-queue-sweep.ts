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
import { nowMs } from '../connection/columns.ts'
import type { Connections, Statement } from '../connection/connection.ts'
import { commitLines, PostgresLine } from './wait-queue-rows.ts'
import type { LineStatements } from './wait-queue-statements.ts'

/**
 * Brings lines to the present whose time has come, and forgets what is over. Any number may sweep at once: a line that
 * somebody has at this moment is passed over, for whoever has it brings it to the present, and all is judged again once
 * a line is locked.
 */
export class LineSweep {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #statements: LineStatements
  readonly #sweeping: SweepStatements
  readonly #run: RunRule

  constructor(
    connections: Connections,
    namespace: string,
    schema: string,
    statements: LineStatements,
    run: RunRule,
  ) {
    this.#connections = connections
    this.#namespace = namespace
    this.#statements = statements
    this.#sweeping = sweepStatements(schema)
    this.#run = run
  }

  async sweep(limit: number, times: LineTimes): Promise<readonly SweptLine[]> {
    const { due, over } = await this.#look(limit, times.keepMs)
    return sweepLines(
      due,
      (line) => this.#sweepOne(line, times),
      () => this.#forget(over, times.keepMs),
    )
  }

  /** What there is to do, in one trip. */
  async #look(limit: number, keepMs: number): Promise<{ due: readonly DueLine[]; over: Over }> {
    const [due, over] = await this.#connections.use((client) =>
      Promise.all([
        this.#connections.send<DueRow>(client, this.#sweeping.due, [this.#namespace, limit, mostWaiters]),
        this.#connections.send<Over>(client, this.#sweeping.over, [this.#namespace, keepMs]),
      ]),
    )
    const lines = due.rows.map(({ operation, resource, seqs }) => ({
      operation,
      resource,
      seqs: (seqs ?? []).map(Number),
    }))
    return { due: lines, over: over.rows[0]! }
  }

  async #sweepOne(due: DueLine, times: LineTimes): Promise<readonly SweptLine[]> {
    const name = nameLine(this.#namespace, due)
    const group = groupOf(times.conflicts, due.operation)
    if (group) return sweepGroup(due, group, await this.#whoIsAt(name.lineKey, due.seqs), times, this.#run)
    return this.#connections.useLine(async (client) => {
      const line = new PostgresLine(this.#connections, client, this.#statements, name)
      try {
        const opened = await line.tryOpen(due.seqs)
        if (!opened) {
          await client.query('ROLLBACK')
          return []
        }
        const swept = await sweepBook(due, opened.book, opened.waiters, times)
        await commitLines(client, [[line, opened.book.lastWrites()]])
        return swept
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined)
        throw error
      }
    })
  }

  async #whoIsAt(lineKey: string, seqs: readonly number[]): Promise<readonly Requester[]> {
    if (seqs.length === 0) return []
    const { rows } = await this.#connections.run<{ node: string; request_id: string }>(
      this.#statements.atPlaces,
      [lineKey, seqs],
    )
    return rows.map(({ node, request_id: requestId }) => ({ node, requestId }))
  }

  async #forget({ outcomes, results, lines }: Over, keepMs: number): Promise<void> {
    const { outcomes: oldOutcomes, results: oldResults, lines: oldLines } = this.#sweeping
    if (outcomes) await this.#inBites(oldOutcomes, [this.#namespace], 1_000)
    if (results) await this.#inBites(oldResults, [this.#namespace], 100)
    // Each of these is an advisory lock until the statement ends, and the server has room for a few thousand.
    if (lines) await this.#inBites(oldLines, [this.#namespace, keepMs], 100)
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
  readonly lines: boolean
}

type SweepStatements = Record<'due' | 'over' | 'outcomes' | 'results' | 'lines', Statement>

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
       EXISTS (SELECT FROM ${s}.lock_queue l WHERE ${idle('$1', '$2')}) AS lines`,
    },
    outcomes: forget('lock_outcome'),
    results: forget('lock_result'),
    // Whoever has a line may have read it and be about to write, so only lines that nobody has are forgotten; and those
    // that somebody changed between the look and the lock are not: every change, and every outcome, brings a revision.
    lines: {
      name: 'sb_forget_lock_line',
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
