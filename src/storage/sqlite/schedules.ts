import type { Added, Fired, NewSchedule, ScheduleRecord, ScheduleStore } from '../../jobs/index.ts'
import { decodeScheduleRow, type ScheduleRow, scheduleColumns } from '../sql/schedule-row.ts'
import { type Connection, readNow } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import { addJobs } from './jobs/add.ts'
import type { Writer } from './writing/writer.ts'

export interface SqliteSchedulesOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  /** Throws when the store was closed. */
  check(): void
}

/** Schedules of one namespace. */
export function createSqliteSchedules({
  namespace,
  writer,
  reader,
  check,
}: SqliteSchedulesOptions): ScheduleStore {
  const read = async <Value>(work: (connection: Connection, namespace: string) => Value): Promise<Value> => {
    check()
    return reader.read((connection) => work(connection, namespace))
  }
  return {
    async put(schedule, seen) {
      check()
      return writer.write({ operation: 'putSchedule', namespace, args: [schedule, seen] })
    },
    async remove(name) {
      check()
      return writer.write({ operation: 'removeSchedule', namespace, args: [name] })
    },
    find: (name) => read((connection) => findSchedule(connection, namespace, name)),
    list: (query) => read((connection) => listSchedules(connection, namespace, query)),
    due: (limit) => read((connection) => findDue(connection, namespace, limit)),
    nextDue: () => read(findNextDue),
    async fire(fired) {
      check()
      return writer.write({ operation: 'fireSchedule', namespace, args: [fired] })
    },
  }
}

/** Writes a schedule over the version that was seen. A new one begins at the clock, above all that its name had before. */
export function putSchedule(
  connection: Connection,
  namespace: string,
  { name, doc, isPaused, nextAt }: NewSchedule,
  seen: number,
  now: number,
): number | null {
  if (seen !== 0) {
    const changed = connection.run(
      `UPDATE job_schedule SET version = version + 1, is_paused = ?4, next_at = ?5, doc = ?6
       WHERE namespace = ?1 AND name = ?2 AND version = ?3`,
      namespace,
      name,
      seen,
      isPaused ? 1 : 0,
      nextAt,
      doc,
    )
    return changed === 1 ? seen + 1 : null
  }
  const version = now * 1_000
  const made = connection.run(
    `INSERT INTO job_schedule (namespace, name, version, is_paused, next_at, created_at, doc)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING`,
    namespace,
    name,
    version,
    isPaused ? 1 : 0,
    nextAt,
    now,
    doc,
  )
  return made === 1 ? version : null
}

export function removeSchedule(connection: Connection, namespace: string, name: string): boolean {
  const sql = 'DELETE FROM job_schedule WHERE namespace = ?1 AND name = ?2'
  return connection.run(sql, namespace, name) === 1
}

/** Moves a schedule on and adds its jobs, in the caller's transaction. */
export function fireSchedule(
  connection: Connection,
  namespace: string,
  { name, seen, force, nextAt, slotAt, jobs }: Fired,
  now: number,
): { readonly version: number; readonly added: readonly Added[] } | null {
  const moved = connection.run(
    `UPDATE job_schedule
     SET version = version + 1, next_at = ?5, last_slot_at = coalesce(?6, last_slot_at), last_fired_at = ?7
     WHERE namespace = ?1 AND name = ?2 AND version = ?3 AND (is_paused = 0 OR ?4)`,
    namespace,
    name,
    seen,
    force ? 1 : 0,
    nextAt,
    slotAt,
    now,
  )
  if (moved === 0) return null
  return { version: seen + 1, added: addJobs(connection, namespace, jobs, now) }
}

function findSchedule(connection: Connection, namespace: string, name: string): ScheduleRecord | undefined {
  const row = connection.get<ScheduleRow>(
    `SELECT ${scheduleColumns} FROM job_schedule WHERE namespace = ?1 AND name = ?2`,
    namespace,
    name,
  )
  return row && decodeScheduleRow(row)
}

function listSchedules(
  connection: Connection,
  namespace: string,
  { limit, after = '' }: { readonly limit: number; readonly after?: string },
): readonly ScheduleRecord[] {
  return connection
    .all<ScheduleRow>(
      `SELECT ${scheduleColumns} FROM job_schedule
       WHERE namespace = ?1 AND name > ?2 ORDER BY name LIMIT ?3`,
      namespace,
      after,
      limit,
    )
    .map(decodeScheduleRow)
}

function findDue(
  connection: Connection,
  namespace: string,
  limit: number,
): { readonly schedules: readonly ScheduleRecord[]; readonly now: number } {
  const now = readNow(connection)
  const rows = connection.all<ScheduleRow>(
    `SELECT ${scheduleColumns} FROM job_schedule
     WHERE namespace = ?1 AND is_paused = 0 AND next_at <= ?2 ORDER BY next_at, name LIMIT ?3 + 0`,
    namespace,
    now,
    limit,
  )
  return { schedules: rows.map(decodeScheduleRow), now }
}

function findNextDue(
  connection: Connection,
  namespace: string,
): { readonly nextAt: number | null; readonly now: number } {
  const sql = `SELECT min(next_at) AS next_at FROM job_schedule
     WHERE namespace = ?1 AND is_paused = 0 AND next_at IS NOT NULL`
  const { next_at: nextAt } = connection.get<{ next_at: number | null }>(sql, namespace)!
  return { nextAt, now: readNow(connection) }
}

/** The namespaces in which one will run some day, those first in which one is due first. */
export function listScheduled(connection: Connection, limit: number): readonly string[] {
  const sql = `SELECT namespace FROM job_schedule WHERE is_paused = 0 AND next_at IS NOT NULL
     GROUP BY namespace ORDER BY min(next_at), namespace LIMIT ?1`
  return connection.all<{ namespace: string }>(sql, limit).map(({ namespace }) => namespace)
}
