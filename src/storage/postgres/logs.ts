import type { LogLine, LogQuery, Note, NoteStore, ProgressRecord } from '../../jobs/index.ts'
import { gatherNotes } from '../sql/log-batch.ts'
import { droppedText, logLimits } from '../sql/log-row.ts'
import { nowMs } from './connection/columns.ts'
import type { Connections, Statement } from './connection/connection.ts'

/**
 * What attempts say, on Postgres. An add is one statement: migrations/baseline-job-details.ts says how lines get their numbers.
 * It runs on the connections of lines, where it keeps no job waiting. The line that tells how many were dropped is not
 * kept; the counters give it when lines are read.
 */
export class PostgresNotes implements NoteStore {
  readonly #connections: Connections
  readonly #namespace: string
  readonly #statements: NoteStatements

  constructor(connections: Connections, namespace: string, statements: NoteStatements) {
    this.#connections = connections
    this.#namespace = namespace
    this.#statements = statements
  }

  async add(notes: readonly Note[]): Promise<void> {
    const said = gatherNotes(notes.map(withoutNuls))
    if (said.length === 0) return
    const lines = said.flatMap((note) => note.logs)
    let next = 1
    const firsts = said.map((note) => {
      const first = next
      next += note.logs.length
      return first
    })
    const values = [
      this.#namespace,
      said.map(({ jobId }) => jobId),
      said.map(({ attempt }) => attempt),
      said.map(({ progress }) => progress),
      said.map(({ lineCount }) => lineCount),
      firsts,
      lines.map(({ level }) => level),
      lines.map(({ text }) => text),
      lines.map(({ bytesSoFar }) => bytesSoFar),
      logLimits.maxLines,
      logLimits.maxLineBytes,
    ]
    await this.#connections.useLine((client) => this.#connections.send(client, this.#statements.add, values))
  }

  async progress(jobIds: readonly string[]): Promise<readonly ProgressRecord[]> {
    if (jobIds.length === 0) return []
    const { rows } = await this.#connections.run<ProgressRow>(this.#statements.progress, [
      this.#namespace,
      jobIds,
    ])
    return rows.map(({ job_id: jobId, attempt, progress, progress_at: at }) => ({
      jobId,
      attempt,
      progress,
      at: Number(at),
    }))
  }

  async logs(jobId: string, { limit, after }: LogQuery): Promise<readonly LogLine[]> {
    const { rows } = await this.#connections.run<LineRow>(this.#statements.lines, [
      this.#namespace,
      jobId,
      after?.attempt ?? -1,
      after?.number ?? 0,
      limit,
    ])
    return rows.map(({ attempt, number, level, text, dropped_count: dropped, logged_at: at }) => ({
      attempt,
      number,
      level,
      text: text ?? droppedText(Number(dropped)),
      at: Number(at),
    }))
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const { rows } = await this.#connections.run<{ jobs: number }>(this.#statements.prune, [
      this.#namespace,
      olderThanMs,
      limit,
    ])
    return rows[0]!.jobs
  }
}

/** Postgres keeps no text with a NUL in it; one such line is no reason to lose the others. */
function withoutNuls(note: Note): Note {
  if (!note.logs.some(({ text }) => text.includes('\0'))) return note
  return {
    ...note,
    logs: note.logs.map(({ level, text }) => ({ level, text: text.replaceAll('\0', '\uFFFD') })),
  }
}

interface ProgressRow extends Record<string, unknown> {
  readonly job_id: string
  readonly attempt: number
  readonly progress: string
  readonly progress_at: string
}

interface LineRow extends Record<string, unknown> {
  readonly attempt: number
  readonly number: number
  readonly level: LogLine['level']
  /** Null: the line that tells how many were dropped. */
  readonly text: string | null
  readonly dropped_count: string
  readonly logged_at: string
}

/** Every statement on notes; namespaces share them. */
export type NoteStatements = Record<'add' | 'progress' | 'lines' | 'prune', Statement>

/** The statements for a schema, whose name comes quoted. */
export function noteStatements(s: string): NoteStatements {
  const named = (name: string, text: string): Statement => ({ name: `sb_notes_${name}`, text })
  return {
    add: named(
      'add',
      `
SELECT ${s}.signalbox_note($1, $2::text[], $3::integer[], $4::text[], $5::integer[], $6::integer[], $7::text[],
  $8::text[], $9::integer[], $10::integer, $11::integer)`,
    ),
    progress: named(
      'progress',
      `
SELECT DISTINCT ON (job_id) job_id, attempt, progress, progress_at FROM ${s}.job_progress
WHERE namespace = $1 AND job_id = ANY ($2::text[]) AND progress IS NOT NULL
ORDER BY job_id, progress_at DESC, attempt DESC`,
    ),
    lines: named(
      'lines',
      `
(SELECT attempt, number, level, text, NULL::bigint AS dropped_count, logged_at FROM ${s}.job_log
 WHERE namespace = $1 AND job_id = $2 AND (attempt, number) > ($3::integer, $4::integer)
 ORDER BY attempt, number LIMIT $5)
UNION ALL
SELECT attempt, line_count + 1, 'warn', NULL, dropped_count, dropped_at FROM ${s}.job_progress
WHERE namespace = $1 AND job_id = $2 AND dropped_count > 0 AND (attempt, line_count + 1) > ($3::integer, $4::integer)
ORDER BY attempt, number LIMIT $5`,
    ),
    // Locked before they go: what was added to meanwhile is looked at again, and stays.
    prune: named(
      'prune',
      `
WITH cutoff AS MATERIALIZED (SELECT ${nowMs} - $2::bigint AS before),
old AS MATERIALIZED (
  -- By the attempt that was added to last: in the order of the index, and each job once.
  SELECT p.job_id FROM ${s}.job_progress p
  WHERE p.namespace = $1 AND p.noted_at < (SELECT before FROM cutoff) AND NOT EXISTS (
    SELECT FROM ${s}.job_progress later
    WHERE later.namespace = $1 AND later.job_id = p.job_id AND (later.noted_at, later.attempt) > (p.noted_at, p.attempt))
  ORDER BY p.noted_at LIMIT $3
),
locked AS MATERIALIZED (
  SELECT p.job_id, p.attempt FROM ${s}.job_progress p, cutoff
  WHERE p.namespace = $1 AND p.job_id IN (SELECT job_id FROM old) AND p.noted_at < cutoff.before
  ORDER BY p.job_id, p.attempt FOR UPDATE OF p SKIP LOCKED
),
unsaid AS (
  DELETE FROM ${s}.job_log l USING locked o
  WHERE l.namespace = $1 AND l.job_id = o.job_id AND l.attempt = o.attempt
),
unnoted AS (
  DELETE FROM ${s}.job_progress p USING locked o
  WHERE p.namespace = $1 AND p.job_id = o.job_id AND p.attempt = o.attempt
)
SELECT count(DISTINCT job_id)::int AS jobs FROM locked`,
    ),
  }
}
