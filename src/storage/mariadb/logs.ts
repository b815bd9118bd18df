import type { LogLine, LogQuery, Note, NoteStore, ProgressRecord } from '../../jobs/index.ts'
import { type AttemptNote, gatherNotes } from '../sql/log-batch.ts'
import { droppedText, keptForRetry, logLimits } from '../sql/log-row.ts'
import { begin, commit, type Statement } from './connection/calls.ts'
import type { Store } from './engine-store.ts'
import { sendAll } from './guards/guard-steps.ts'
import { now, setNow } from './monitor/monitor-rows.ts'

/**
 * What attempts say, on MariaDB. An add is one transaction in one packet: its statements tell each other by the row of
 * the attempt, which the first has locked, and by a variable of the session. The line that tells how many were dropped
 * is not kept; the counters give it when lines are read.
 */
type Notes = Pick<Store, 'calls' | 'tables' | 'namespace' | 'packetBytes'>

export function createMariadbNotes(notes: Notes): NoteStore {
  return {
    add: (given) => add(notes, given),
    progress: (jobIds) => readProgress(notes, jobIds),
    logs: (jobId, query) => readLines(notes, jobId, query),
    prune: (request) => prune(notes, request),
  }
}

async function add(notes: Notes, given: readonly Note[]): Promise<void> {
  const steps = gatherNotes(given).flatMap((note) => encodeNote(notes, note))
  if (steps.length === 0) return
  await notes.calls.run('keep notes', (call) =>
    sendAll(call, [begin, setNow, ...steps, commit], notes.packetBytes),
  )
}

const kept = '@signalbox_kept'
const thisAttempt = 'namespace = ? AND job_id = ? AND attempt = ?'

function encodeNote({ tables, namespace }: Notes, note: AttemptNote): readonly Statement[] {
  const { jobId, attempt, progress, lineCount, logs } = note
  const key = [namespace, jobId, attempt]
  const steps: Statement[] = [
    [
      `INSERT INTO ${tables.progress} (namespace, job_id, attempt, progress, progress_at, noted_at)
        VALUES (?, ?, ?, ?, ${progress === null ? 'NULL' : now}, ${now})
        ON DUPLICATE KEY UPDATE progress = COALESCE(VALUES(progress), progress),
          progress_at = COALESCE(VALUES(progress_at), progress_at), noted_at = GREATEST(noted_at, VALUES(noted_at))`,
      [...key, progress],
    ],
  ]
  if (lineCount === 0) return steps
  const { maxLines, maxLineBytes } = logLimits
  // What never fits is not sent, only counted.
  if (logs.length === 0) steps.push([`SET ${kept} = 0`, []])
  else {
    const rows = logs.map(({ level, text, bytesSoFar }, nr) => [nr + 1, level, bytesSoFar, text])
    steps.push(
      [
        `INSERT INTO ${tables.log} (namespace, job_id, attempt, number, level, text, logged_at)
          WITH v (nr, level, bytes, text) AS (VALUES ?)
          SELECT p.namespace, p.job_id, p.attempt, p.line_count + v.nr, v.level, v.text, ${now}
          FROM ${tables.progress} p STRAIGHT_JOIN v
          WHERE p.namespace = ? AND p.job_id = ? AND p.attempt = ? AND p.dropped_count = 0
            AND p.line_count + v.nr <= ? AND p.line_bytes + v.bytes <= ?`,
        [rows, ...key, maxLines, maxLineBytes],
      ],
      [`SET ${kept} = ROW_COUNT()`, []],
    )
  }
  steps.push([
    `UPDATE ${tables.progress} SET line_count = line_count + ${kept},
        line_bytes = line_bytes + COALESCE(ELT(${kept}${', ?'.repeat(logs.length)}, 0), 0),
        dropped_count = dropped_count + ? - ${kept}, dropped_at = IF(? > ${kept}, ${now}, dropped_at)
      WHERE ${thisAttempt}`,
    [...logs.map(({ bytesSoFar }) => bytesSoFar), lineCount, lineCount, ...key],
  ])
  return steps
}

async function readProgress(
  { calls, tables, namespace }: Notes,
  jobIds: readonly string[],
): Promise<readonly ProgressRecord[]> {
  if (jobIds.length === 0) return []
  const rows = await calls.run('read progress', (call) =>
    call.rows<ProgressRow>(
      `SELECT p.job_id, p.attempt, p.progress, p.progress_at FROM ${tables.progress} p
        WHERE p.namespace = ? AND p.job_id IN (?) AND p.progress IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM ${tables.progress} later WHERE later.namespace = p.namespace AND later.job_id = p.job_id
            AND later.progress IS NOT NULL AND (later.progress_at > p.progress_at
              OR (later.progress_at = p.progress_at AND later.attempt > p.attempt)))`,
      [namespace, jobIds],
    ),
  )
  return rows.map(({ job_id: jobId, attempt, progress, progress_at: at }) => ({
    jobId,
    attempt,
    progress,
    at: Number(at),
  }))
}

interface ProgressRow {
  readonly job_id: string
  readonly attempt: number
  readonly progress: string
  readonly progress_at: number | string
}

interface LineRow {
  readonly attempt: number
  readonly number: number
  readonly level: LogLine['level']
  /** Null: the line that tells how many were dropped. */
  readonly text: string | null
  readonly dropped_count: number | string | null
  readonly logged_at: number | string
}

async function readLines(
  { calls, tables, namespace }: Notes,
  jobId: string,
  { limit, after }: LogQuery,
): Promise<readonly LogLine[]> {
  const { attempt, number } = after ?? { attempt: -1, number: 0 }
  const behind = (numbered: string) => `(attempt > ? OR (attempt = ? AND ${numbered} > ?))`
  const from = [namespace, jobId, attempt, attempt, number]
  const rows = await calls.run('read lines', (call) =>
    call.rows<LineRow>(
      `(SELECT attempt, number, level, text, NULL AS dropped_count, logged_at FROM ${tables.log}
          WHERE namespace = ? AND job_id = ? AND ${behind('number')} ORDER BY attempt, number LIMIT ?)
        UNION ALL
        (SELECT attempt, line_count + 1, 'warn', NULL, dropped_count, dropped_at FROM ${tables.progress}
          WHERE namespace = ? AND job_id = ? AND ${behind('line_count + 1')} AND dropped_count > 0)
        ORDER BY attempt, number LIMIT ?`,
      [...from, limit, ...from, limit],
    ),
  )
  return rows.map((row) => ({
    attempt: row.attempt,
    number: Number(row.number),
    level: row.level,
    text: row.text ?? droppedText(Number(row.dropped_count)),
    at: Number(row.logged_at),
  }))
}

/** The jobs are begun anew: what leaves little room for their next attempts is forgotten. */
export function makeRoomForNotes(
  { tables, namespace }: Notes,
  jobIds: readonly string[],
): readonly Statement[] {
  const { lineCount, lineBytes } = keptForRetry
  const isFull = `p.namespace = ? AND p.job_id IN (?) AND (p.line_count > ${lineCount} OR p.line_bytes > ${lineBytes})`
  const sameAttempt = 'l.namespace = p.namespace AND l.job_id = p.job_id AND l.attempt = p.attempt'
  return [
    [
      `DELETE l FROM ${tables.progress} p STRAIGHT_JOIN ${tables.log} l ON ${sameAttempt} WHERE ${isFull}`,
      [namespace, jobIds],
    ],
    [`DELETE p FROM ${tables.progress} p WHERE ${isFull}`, [namespace, jobIds]],
  ]
}

async function prune(
  notes: Notes,
  { olderThanMs, limit }: { readonly olderThanMs: number; readonly limit: number },
): Promise<number> {
  let pruned = 0
  while (pruned < limit) {
    const most = Math.min(500, limit - pruned)
    const count = await pruneSome(notes, olderThanMs, most)
    pruned += count
    if (count < most) break
  }
  return pruned
}

/** Locked before they go: what was added to meanwhile is looked at again, and stays. */
function pruneSome({ calls, tables, namespace }: Notes, olderThanMs: number, limit: number): Promise<number> {
  const { progress, log } = tables
  return calls.run('forget notes', async (call) => {
    const [, , old] = (await call.packet([
      begin,
      setNow,
      [
        // By the attempt that was added to last: in the order of the index, and each job once.
        `SELECT p.job_id FROM ${progress} p FORCE INDEX (job_progress_noted)
          WHERE p.namespace = ? AND p.noted_at < ${now} - ? AND NOT EXISTS (
            SELECT 1 FROM ${progress} later WHERE later.namespace = p.namespace AND later.job_id = p.job_id
              AND (later.noted_at > p.noted_at OR (later.noted_at = p.noted_at AND later.attempt > p.attempt)))
          ORDER BY p.noted_at LIMIT ?`,
        [namespace, olderThanMs, limit],
      ],
    ])) as [unknown, unknown, { job_id: string }[]]
    if (old.length === 0) {
      await call.packet([commit])
      return 0
    }
    const rows = await call.rows<{ job_id: string; attempt: number }>(
      `SELECT job_id, attempt FROM ${progress} FORCE INDEX (PRIMARY)
        WHERE namespace = ? AND job_id IN (?) AND noted_at < ${now} - ? FOR UPDATE SKIP LOCKED`,
      [namespace, old.map(({ job_id: id }) => id).sort(), olderThanMs],
    )
    const keys = rows.map(({ job_id: id, attempt }) => [id, attempt])
    const forget = (table: string): Statement => [
      `DELETE n FROM (WITH v (job_id, attempt) AS (VALUES ?) SELECT * FROM v) old STRAIGHT_JOIN ${table} n
        ON n.namespace = ? AND n.job_id = old.job_id AND n.attempt = old.attempt`,
      [keys, namespace],
    ]
    await call.packet([...(keys.length === 0 ? [] : [forget(progress), forget(log)]), commit])
    return new Set(rows.map(({ job_id: id }) => id)).size
  })
}
