import type { LogLine, LogQuery, Note, NoteStore, ProgressRecord } from '../../jobs/index.ts'
import { keptForRetry, type PlacedLine, placeLines, type SaidSoFar } from '../sql/log-row.ts'
import { type Connection, readNow } from './connection/connection.ts'
import type { Reader } from './connection/reader.ts'
import type { Writer } from './writing/writer.ts'

export interface SqliteNotesOptions {
  readonly namespace: string
  readonly writer: Writer
  readonly reader: Reader
  /** Throws when the store was closed. */
  check(): void
}

/** What attempts of one namespace say of themselves. */
export function createSqliteNotes({ namespace, writer, reader, check }: SqliteNotesOptions): NoteStore {
  return {
    async add(notes) {
      check()
      const telling = notes.filter(({ progress, logs }) => progress !== null || logs.length > 0)
      if (telling.length > 0) await writer.write({ operation: 'addNotes', namespace, args: [telling] })
    },
    async progress(jobIds) {
      check()
      return reader.read((connection) => readProgress(connection, namespace, jobIds))
    },
    async logs(jobId, query) {
      check()
      return reader.read((connection) => readLines(connection, namespace, jobId, query))
    },
    async prune(request) {
      check()
      // Nearly always there is nothing to do, and then nobody needs the writer.
      const isDue = await reader.read(
        (connection) =>
          findOld(connection, namespace, readNow(connection) - request.olderThanMs, 1).length > 0,
      )
      return isDue ? writer.write({ operation: 'pruneNotes', namespace, args: [request] }) : 0
    },
  }
}

/** Keeps notes in the caller's transaction. SQLite has one writer, so nobody counts lines in between. */
export function addNotes(
  connection: Connection,
  namespace: string,
  notes: readonly Note[],
  now: number,
): void {
  for (const { jobId, attempt, progress, logs } of notes) {
    const before = findAttempt(connection, namespace, jobId, attempt)
    const { said, kept, dropped } = placeLines(before ?? saidNothing, logs)
    connection.run(
      `INSERT INTO job_progress (namespace, job_id, attempt, line_count, line_bytes, dropped_count, noted_at,
         progress_at, progress)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, iif(?8 IS NULL, NULL, ?7), ?8)
       ON CONFLICT DO UPDATE SET line_count = excluded.line_count, line_bytes = excluded.line_bytes,
         dropped_count = excluded.dropped_count, noted_at = excluded.noted_at,
         progress_at = coalesce(excluded.progress_at, progress_at),
         progress = coalesce(excluded.progress, progress)`,
      namespace,
      jobId,
      attempt,
      said.lineCount,
      said.lineBytes,
      said.droppedCount,
      now,
      progress,
    )
    for (const line of dropped ? [...kept, dropped] : kept) {
      writeLine(connection, namespace, jobId, attempt, line, now)
    }
  }
}

const saidNothing: SaidSoFar = { lineCount: 0, lineBytes: 0, droppedCount: 0 }

function findAttempt(
  connection: Connection,
  namespace: string,
  jobId: string,
  attempt: number,
): SaidSoFar | undefined {
  return connection.get<SaidSoFar>(
    `SELECT line_count AS lineCount, line_bytes AS lineBytes, dropped_count AS droppedCount FROM job_progress
     WHERE namespace = ?1 AND job_id = ?2 AND attempt = ?3`,
    namespace,
    jobId,
    attempt,
  )
}

/** Only the line that counts those dropped is ever there already. */
function writeLine(
  connection: Connection,
  namespace: string,
  jobId: string,
  attempt: number,
  { number, level, text }: PlacedLine,
  now: number,
): void {
  connection.run(
    `INSERT INTO job_log (namespace, job_id, attempt, number, logged_at, level, text)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
     ON CONFLICT DO UPDATE SET logged_at = excluded.logged_at, text = excluded.text`,
    namespace,
    jobId,
    attempt,
    number,
    now,
    level,
    text,
  )
}

function readProgress(
  connection: Connection,
  namespace: string,
  jobIds: readonly string[],
): readonly ProgressRecord[] {
  const rows = connection.all<ProgressRecord>(
    `SELECT p.job_id AS jobId, p.attempt, p.progress, p.progress_at AS at
     FROM (SELECT DISTINCT value AS id FROM json_each(?2)) AS wanted
     CROSS JOIN job_progress p ON p.namespace = ?1 AND p.job_id = wanted.id
     WHERE p.attempt = (SELECT attempt FROM job_progress
       WHERE namespace = ?1 AND job_id = wanted.id AND progress IS NOT NULL
       ORDER BY progress_at DESC, attempt DESC LIMIT 1)`,
    namespace,
    JSON.stringify(jobIds),
  )
  return rows.map(plain)
}

function readLines(
  connection: Connection,
  namespace: string,
  jobId: string,
  { limit, after = { attempt: -1, number: 0 } }: LogQuery,
): readonly LogLine[] {
  const rows = connection.all<LogLine>(
    `SELECT attempt, number, level, text, logged_at AS at FROM job_log
     WHERE namespace = ?1 AND job_id = ?2 AND (attempt, number) > (?3, ?4)
     ORDER BY attempt, number LIMIT ?5`,
    namespace,
    jobId,
    after.attempt,
    after.number,
    limit,
  )
  return rows.map(plain)
}

/** An ordinary object: SQLite's have no prototype. */
function plain<Row extends object>(row: Row): Row {
  return { ...row }
}

/** Jobs none of whose attempts said anything since, the longest silent first. */
function findOld(
  connection: Connection,
  namespace: string,
  cutoff: number,
  limit: number,
): readonly string[] {
  return connection
    .all<{ job_id: string }>(
      `SELECT job_id FROM job_progress p
       WHERE namespace = ?1 AND noted_at < ?2 AND NOT EXISTS (SELECT 1 FROM job_progress later
         WHERE later.namespace = ?1 AND later.job_id = p.job_id
           AND (later.noted_at, later.attempt) > (p.noted_at, p.attempt))
       ORDER BY noted_at LIMIT ?3`,
      namespace,
      cutoff,
      limit,
    )
    .map(({ job_id }) => job_id)
}

export function pruneNotes(
  connection: Connection,
  namespace: string,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
  now: number,
): number {
  const old = findOld(connection, namespace, now - olderThanMs, limit)
  forgetNotes(connection, namespace, old)
  return old.length
}

/** The job is begun anew: what leaves little room for its next attempts is forgotten. */
export function makeRoomForNotes(connection: Connection, namespace: string, jobId: string): void {
  const full = connection.all<{ attempt: number }>(
    `DELETE FROM job_progress WHERE namespace = ?1 AND job_id = ?2 AND (line_count > ?3 OR line_bytes > ?4)
     RETURNING attempt`,
    namespace,
    jobId,
    keptForRetry.lineCount,
    keptForRetry.lineBytes,
  )
  for (const { attempt } of full) {
    connection.run(
      'DELETE FROM job_log WHERE namespace = ?1 AND job_id = ?2 AND attempt = ?3',
      namespace,
      jobId,
      attempt,
    )
  }
}

export function forgetNotes(connection: Connection, namespace: string, jobIds: readonly string[]): void {
  if (jobIds.length === 0) return
  for (const table of ['job_progress', 'job_log']) {
    connection.run(
      `DELETE FROM ${table} WHERE namespace = ?1 AND job_id IN (SELECT value FROM json_each(?2))`,
      namespace,
      JSON.stringify(jobIds),
    )
  }
}
