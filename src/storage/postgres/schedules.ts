import type { Added, Fired, NewSchedule, ScheduleRecord, ScheduleStore } from '../../jobs/index.ts'
import { nowMs } from './connection/columns.ts'
import type { Connections, Statement } from './connection/connection.ts'
import { sqlState } from './connection/failures.ts'
import { addValues, isBlocked } from './jobs/add.ts'
import { PostgresJobs } from './jobs/jobs.ts'
import type { Space } from './jobs/namespace-memory.ts'
import { transact, transactAtOnce } from './schedule-transaction.ts'

/**
 * Schedules on Postgres. A run is one transaction: the row is moved on if it is as it was seen, else the statement fails
 * and nothing behind it takes effect; then the jobs are added as ever. Without unique keys all of it is one trip.
 */
export class PostgresSchedules implements ScheduleStore {
  readonly #connections: Connections
  readonly #space: Space
  readonly #statements: ScheduleStatements

  constructor(connections: Connections, space: Space, statements: ScheduleStatements) {
    this.#connections = connections
    this.#space = space
    this.#statements = statements
  }

  async put({ name, doc, isPaused, nextAt }: NewSchedule, seen: number): Promise<number | null> {
    const rows = await this.#run<{ version: string }>(this.#statements.put, [
      name,
      seen,
      doc,
      isPaused,
      nextAt,
    ])
    return rows[0] ? Number(rows[0].version) : null
  }

  async remove(name: string): Promise<boolean> {
    return (await this.#run(this.#statements.remove, [name])).length > 0
  }

  async find(name: string): Promise<ScheduleRecord | undefined> {
    const [row] = await this.#run<ScheduleRow>(this.#statements.find, [name])
    return row && decodeSchedule(row)
  }

  async list({ limit, after }: { limit: number; after?: string }): Promise<readonly ScheduleRecord[]> {
    const rows = await this.#run<ScheduleRow>(this.#statements.list, [after ?? '', limit])
    return rows.map(decodeSchedule)
  }

  async due(limit: number): Promise<{ schedules: readonly ScheduleRecord[]; now: number }> {
    const rows = await this.#run<ScheduleRow & { now: string }>(this.#statements.due, [limit])
    const schedules = rows.filter(({ name }) => name !== null).map(decodeSchedule)
    return { schedules, now: Number(rows[0]!.now) }
  }

  async nextDue(): Promise<{ nextAt: number | null; now: number }> {
    const [row] = await this.#run<{ next_at: string | null; now: string }>(this.#statements.nextDue, [])
    return { nextAt: instant(row!.next_at), now: Number(row!.now) }
  }

  async fire(fired: Fired): Promise<{ version: number; added: readonly Added[] } | null> {
    // What waits for something is written with it, in more than one statement.
    const isKeyed = fired.jobs.some((job) => job.uniqueKey !== null || isBlocked(job))
    try {
      return isKeyed ? await this.#fireKeyed(fired) : await this.#firePlain(fired)
    } catch (error) {
      if (isTooLate(error)) return null
      throw error
    }
  }

  async #firePlain(fired: Fired): Promise<{ version: number; added: readonly Added[] }> {
    const { jobs } = fired
    const { namespace, statements, cursors } = this.#space
    const [moved] = await transactAtOnce(this.#connections, (client) => [
      this.#connections.send(client, this.#statements.fire, this.#fireValues(fired)),
      ...(jobs.length === 0
        ? []
        : [this.#connections.send(client, statements.add.plain, addValues(namespace, jobs, null))]),
    ])
    cursors.added(jobs)
    return {
      version: Number(moved!.rows[0].version),
      added: jobs.map(({ id }) => ({ id, duplicate: false })),
    }
  }

  /** Who has a key may have to be asked for more than once. */
  #fireKeyed(fired: Fired): Promise<{ version: number; added: readonly Added[] }> {
    return transact(
      this.#connections,
      async (tx) => {
        const { rows } = await tx.run<{ version: string }>(this.#statements.fire, this.#fireValues(fired))
        const added = await new PostgresJobs(this.#connections, this.#space, tx).add(fired.jobs)
        return { version: Number(rows[0]!.version), added }
      },
      () => true,
    )
  }

  #fireValues({ name, seen, force, nextAt, slotAt }: Fired): unknown[] {
    return [this.#space.namespace, name, seen, force, nextAt, slotAt]
  }

  async #run<Row extends Record<string, unknown>>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    const { rows } = await this.#connections.run<Row>(statement, [this.#space.namespace, ...values])
    return rows
  }
}

/** Somebody else moved it on, or it is paused or gone. */
const tooLateState = 'SBX03'

/** Of the error itself, or of what it was made from. */
function isTooLate(error: unknown): boolean {
  return (sqlState(error) ?? sqlState((error as { cause?: unknown }).cause)) === tooLateState
}

interface ScheduleRow extends Record<string, unknown> {
  readonly name: string
  readonly doc: string
  readonly is_paused: boolean
  readonly next_at: string | null
  readonly version: string
  readonly last_slot_at: string | null
  readonly last_fired_at: string | null
  readonly created_at: string
}

function decodeSchedule(row: ScheduleRow): ScheduleRecord {
  return {
    name: row.name,
    doc: row.doc,
    isPaused: row.is_paused,
    nextAt: instant(row.next_at),
    version: Number(row.version),
    lastSlotAt: instant(row.last_slot_at),
    lastFiredAt: instant(row.last_fired_at),
    createdAt: Number(row.created_at),
  }
}

function instant(value: string | null): number | null {
  return value === null ? null : Number(value)
}

/** Every statement on schedules; namespaces share them. */
export type ScheduleStatements = Record<
  'put' | 'remove' | 'find' | 'list' | 'due' | 'nextDue' | 'fire',
  Statement
>

/** The statements for a schema, whose name comes quoted. */
export function scheduleStatements(s: string): ScheduleStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_schedules_${name}`, text })
  const columns = 'name, doc, is_paused, next_at, version, last_slot_at, last_fired_at, created_at'
  const isDue = 'namespace = $1 AND NOT is_paused AND next_at IS NOT NULL'
  return {
    // A new one begins at the clock, in microseconds: above all versions that its name had before.
    put: named(
      'put',
      `
WITH changed AS (
  UPDATE ${s}.job_schedule SET version = version + 1, doc = $4, is_paused = $5, next_at = $6
  WHERE namespace = $1 AND name = $2 AND version = $3::bigint AND $3 > 0
  RETURNING version
), made AS (
  INSERT INTO ${s}.job_schedule (namespace, name, version, doc, is_paused, next_at, created_at)
  SELECT $1, $2, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $4, $5::boolean, $6::bigint, ${nowMs}
  WHERE $3 = 0
  ON CONFLICT DO NOTHING
  RETURNING version
)
SELECT version FROM changed UNION ALL SELECT version FROM made`,
    ),
    remove: named(
      'remove',
      `DELETE FROM ${s}.job_schedule WHERE namespace = $1 AND name = $2 RETURNING name`,
    ),
    find: named('find', `SELECT ${columns} FROM ${s}.job_schedule WHERE namespace = $1 AND name = $2`),
    list: named(
      'list',
      `SELECT ${columns} FROM ${s}.job_schedule WHERE namespace = $1 AND name > $2 ORDER BY name LIMIT $3`,
    ),
    // One row at least, for the time.
    due: named(
      'due',
      `
SELECT clock.now, d.* FROM (SELECT ${nowMs} AS now) clock LEFT JOIN LATERAL (
  SELECT ${columns} FROM ${s}.job_schedule WHERE ${isDue} AND next_at <= clock.now
  ORDER BY next_at, name LIMIT $2
) d ON true
ORDER BY d.next_at, d.name`,
    ),
    nextDue: named(
      'next_due',
      `SELECT ${nowMs} AS now, (SELECT min(next_at) FROM ${s}.job_schedule WHERE ${isDue}) AS next_at`,
    ),
    fire: named(
      'fire',
      `
WITH moved AS (
  UPDATE ${s}.job_schedule SET version = version + 1, next_at = $5, last_slot_at = coalesce($6, last_slot_at),
    last_fired_at = ${nowMs}
  WHERE namespace = $1 AND name = $2 AND version = $3 AND ($4::boolean OR NOT is_paused)
  RETURNING version
)
SELECT CASE WHEN EXISTS (SELECT FROM moved) THEN (SELECT version FROM moved)
            ELSE ${s}.signalbox_refuse('${tooLateState}', 'too late') END AS version`,
    ),
  }
}
