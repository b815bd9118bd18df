import type { LogLine, LogQuery, LogStore, LogUpdate, ProgressRecord } from '../../jobs/index.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import {
  type AttemptLog,
  droppedText,
  gatherUpdates,
  keptForRetry,
  type LogCounters,
  placeLines,
} from './log-row.ts'
import { type Age, readAll } from './operations.ts'
import { last, many, one, operation, type Result, run } from './procedure.ts'
import { type Bound, statement } from './statement.ts'

/**
 * The log lines and the progress of attempts. An attempt has a row in `job_progress`, whose counters number its log
 * lines. Each add locks that row first, so no number is used twice. The line that gives the number of dropped lines is
 * not stored: reads build it from the counters.
 */
export function createLogStore(database: Database, namespace: string): LogStore {
  return {
    async add(updates) {
      const attempts = gatherUpdates(updates.map(withoutNuls))
      if (attempts.length > 0) await database.run(addNotes, [namespace, attempts])
    },
    async progress(jobIds) {
      return jobIds.length === 0 ? [] : database.run(readProgress, [namespace, jobIds])
    },
    logs: (jobId, query) => database.run(readLogs, [namespace, jobId, query]),
    async prune({ olderThanMs, limit }) {
      let pruned = 0
      while (pruned < limit) {
        const most = Math.min(500, limit - pruned)
        const some = await database.run(pruneLogs, [namespace, { olderThanMs, limit: most }])
        pruned += some
        if (some < most) break
      }
      return pruned
    },
  }
}

/** Postgres stores no text with a NUL. The other lines must not be lost because of one such line. */
function withoutNuls(note: LogUpdate): LogUpdate {
  if (!note.logs.some(({ text }) => text.includes('\0'))) return note
  return {
    ...note,
    logs: note.logs.map(({ level, text }) => ({ level, text: text.replaceAll('\0', '\uFFFD') })),
  }
}

const touchAttempts = statement(
  'notes_touch',
  { namespace: 'text', rows: { job_id: 'text', attempt: 'integer', progress: 'text | null' } },
  (d) => `${d.upsert({
    into: '@job_progress',
    columns: `namespace, job_id, attempt, line_count, line_bytes, dropped_count, noted_at, progress_at, progress`,
    source: `SELECT :namespace, v.job_id, v.attempt, 0, 0, 0, ${d.now},
  CASE WHEN v.progress IS NULL THEN NULL ELSE ${d.now} END, v.progress FROM :rows WHERE 1 = 1`,
    key: 'namespace, job_id, attempt',
    set: {
      noted_at: d.greatest('old.noted_at', 'new.noted_at'),
      progress_at: 'coalesce(new.progress_at, old.progress_at)',
      progress: 'coalesce(new.progress, old.progress)',
    },
  })}
RETURNING job_id, attempt, line_count, line_bytes, dropped_count`,
)

const insertLogs = statement(
  'logs_add',
  {
    namespace: 'text',
    rows: { job_id: 'text', attempt: 'integer', number: 'integer', level: 'text', text: 'text' },
  },
  (d) => `
INSERT INTO @job_log (namespace, job_id, attempt, number, level, logged_at, text)
SELECT :namespace, v.job_id, v.attempt, v.number, v.level, ${d.now}, v.text FROM :rows`,
)

const countLogs = statement(
  'logs_count',
  {
    namespace: 'text',
    rows: {
      ...{ job_id: 'text', attempt: 'integer' },
      ...{ line_count: 'integer', line_bytes: 'integer', dropped_count: 'integer', is_dropping: 'boolean' },
    },
  },
  (d) =>
    d.updateByRows(
      '@job_progress',
      {
        line_count: 'v.line_count',
        line_bytes: 'v.line_bytes',
        dropped_count: 'v.dropped_count',
        dropped_at: `CASE WHEN v.is_dropping THEN ${d.now} ELSE t.dropped_at END`,
      },
      't.namespace = :namespace AND t.job_id = v.job_id AND t.attempt = v.attempt',
    ),
)

interface Counts extends LogCounters {
  readonly jobId: string
  readonly attempt: number
}

const counts = columns<Counts>({
  ...{
    jobId: 'text',
    attempt: 'integer',
    lineCount: 'integer',
    lineBytes: 'integer',
    droppedCount: 'integer',
  },
})

interface AttemptKey {
  readonly job_id: string
  readonly attempt: number | string
}

const addNotes = operation({
  name: 'add logs and progress',
  connectionGroup: 'waiting',
  *procedure(namespace: string, attempts: readonly AttemptLog[]) {
    const rows = attempts.map(({ jobId, attempt, progress }) => ({ job_id: jobId, attempt, progress }))
    const touch = many(touchAttempts({ namespace, rows }))
    const logging = attempts.filter(({ lineCount }) => lineCount > 0)
    if (logging.length === 0) {
      yield* last(touch)
      return
    }
    const known = new Map(
      (yield* touch).map(counts.decode).map((row) => [nameOf(row.jobId, row.attempt), row]),
    )
    const placed = logging.map((note) => place(note, known.get(nameOf(note.jobId, note.attempt))!))
    const lines = placed.flatMap(({ kept }) => kept)
    const counting = countLogs({ namespace, rows: placed.map(({ counted }) => counted) })
    yield* last(run(...(lines.length === 0 ? [] : [insertLogs({ namespace, rows: lines })]), counting))
  },
})

function nameOf(jobId: string, attempt: number): string {
  return `${jobId} ${attempt}`
}

function place({ jobId, attempt, logs, lineCount }: AttemptLog, before: LogCounters) {
  const { counters, kept } = placeLines(before, logs)
  // The caller left out lines that fit into no attempt; count them here.
  const droppedCount = counters.droppedCount + lineCount - logs.length
  const key = { job_id: jobId, attempt }
  return {
    kept: kept.map((line) => ({ ...key, ...line })),
    counted: {
      ...key,
      line_count: counters.lineCount,
      line_bytes: counters.lineBytes,
      dropped_count: droppedCount,
      is_dropping: droppedCount > before.droppedCount,
    },
  }
}

const selectProgress = statement(
  'progress_read',
  { namespace: 'text', jobIds: 'text[]' },
  () => `
SELECT p.job_id, p.attempt, p.progress, p.progress_at FROM @job_progress p
WHERE p.namespace = :namespace AND p.job_id IN (:jobIds) AND p.progress IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM @job_progress later
  WHERE later.namespace = p.namespace AND later.job_id = p.job_id AND later.progress IS NOT NULL
    AND (later.progress_at > p.progress_at OR (later.progress_at = p.progress_at AND later.attempt > p.attempt)))`,
)

const stored = columns<ProgressRecord>({
  ...{ jobId: 'text', attempt: 'integer', progress: 'text', at: ['integer', 'progress_at'] },
})

const readProgress = readAll(
  'read progress',
  (namespace: string, jobIds: readonly string[]) => selectProgress({ namespace, jobIds }),
  stored.decode,
)

const isAfter = (number: string) => `(attempt > :attempt OR (attempt = :attempt AND ${number} > :number))`

const selectDropped = statement(
  'logs_dropped',
  { namespace: 'text', jobId: 'text', attempt: 'integer', number: 'integer', limit: 'integer' },
  () => `
SELECT attempt, line_count, dropped_count, dropped_at FROM @job_progress
WHERE namespace = :namespace AND job_id = :jobId AND dropped_count > 0 AND ${isAfter('line_count + 1')}
ORDER BY attempt LIMIT :limit`,
)

const selectLogs = statement(
  'logs_read',
  { namespace: 'text', jobId: 'text', attempt: 'integer', number: 'integer', limit: 'integer' },
  () => `
SELECT attempt, number, level, text, logged_at FROM @job_log
WHERE namespace = :namespace AND job_id = :jobId AND ${isAfter('number')}
ORDER BY attempt, number LIMIT :limit`,
)

const line = columns<LogLine>({
  ...{ attempt: 'integer', number: 'integer', level: 'text', text: 'text', at: ['integer', 'logged_at'] },
})

interface Dropped {
  readonly attempt: number
  readonly lineCount: number
  readonly droppedCount: number
  readonly droppedAt: number
}

const dropped = columns<Dropped>({
  ...{ attempt: 'integer', lineCount: 'integer', droppedCount: 'integer', droppedAt: 'integer' },
})

const readLogs = operation({
  name: 'read logs',
  isRead: true,
  *procedure(namespace: string, jobId: string, { limit, after }: LogQuery) {
    const { attempt, number } = after ?? { attempt: -1, number: 0 }
    const from = { namespace, jobId, attempt, number, limit }
    // Reads the counters first: if they show dropped lines, all lines before those are stored already.
    const [counters, logs] = yield* run(selectDropped(from), selectLogs(from))
    return [...logs!.rows.map(line.decode), ...counters!.rows.map(decodeDropped)]
      .sort((a, b) => a.attempt - b.attempt || a.number - b.number)
      .slice(0, limit)
  },
})

function decodeDropped(row: unknown): LogLine {
  const { attempt, lineCount, droppedCount, droppedAt } = dropped.decode(row)
  return { attempt, number: lineCount + 1, level: 'warn', text: droppedText(droppedCount), at: droppedAt }
}

// By the attempt that was updated last: in the order of the index, each job once.
const selectOld = statement(
  'notes_old',
  { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
  (d) => `
SELECT p.job_id FROM @job_progress p ${d.byIndex('job_progress_noted')}
WHERE p.namespace = :namespace AND p.noted_at < ${d.now} - :olderThanMs AND NOT EXISTS (
  SELECT 1 FROM @job_progress later WHERE later.namespace = p.namespace AND later.job_id = p.job_id
    AND (later.noted_at > p.noted_at OR (later.noted_at = p.noted_at AND later.attempt > p.attempt)))
ORDER BY p.noted_at LIMIT :limit`,
)

const lockOld = statement(
  'notes_lock_old',
  { namespace: 'text', jobIds: 'text[]', olderThanMs: 'integer' },
  (d) => `
SELECT job_id, attempt FROM @job_progress ${d.byIndex('PRIMARY')}
WHERE namespace = :namespace AND job_id IN (:jobIds) AND noted_at < ${d.now} - :olderThanMs
ORDER BY job_id, attempt ${d.skipLocked}`,
)

const keyOfRows = 't.namespace = :namespace AND t.job_id = v.job_id AND t.attempt = v.attempt'
const attemptRows = { namespace: 'text', rows: { job_id: 'text', attempt: 'integer' } } as const
const deleteLogs = statement('logs_delete', attemptRows, (d) => d.deleteByRows('@job_log', keyOfRows))
const deleteProgress = statement('progress_delete', attemptRows, (d) =>
  d.deleteByRows('@job_progress', keyOfRows),
)

/** Locks the attempts before it deletes them: an attempt that was updated meanwhile is checked again and stays. */
const pruneLogs = operation({
  name: 'prune logs and progress',
  *procedure(namespace: string, { olderThanMs, limit }: Age) {
    const old = yield* many<{ job_id: string }>(selectOld({ namespace, olderThanMs, limit }))
    if (old.length === 0) return 0
    const jobIds = old.map((row) => row.job_id).sort()
    const rows = (yield* many<AttemptKey>(lockOld({ namespace, jobIds, olderThanMs }))).map((row) => ({
      job_id: row.job_id,
      attempt: Number(row.attempt),
    }))
    if (rows.length > 0)
      yield* last(run(deleteLogs({ namespace, rows }), deleteProgress({ namespace, rows })))
    return new Set(rows.map((row) => row.job_id)).size
  },
  upkeep: {
    *isNeeded(namespace: string, { olderThanMs }: Age) {
      return (yield* one(selectOld({ namespace, olderThanMs, limit: 1 }))) !== undefined
    },
    otherwise: 0,
  },
})

const selectFull = statement(
  'notes_full',
  { namespace: 'text', jobIds: 'text[]' },
  () => `
SELECT job_id, attempt FROM @job_progress
WHERE namespace = :namespace AND job_id IN (:jobIds)
  AND (line_count > ${keptForRetry.lineCount} OR line_bytes > ${keptForRetry.lineBytes})`,
)

/** For jobs that a retry begins anew: finds attempts whose logs leave too little capacity. */
export function findLongLogs(namespace: string, jobIds: readonly string[]): Bound {
  return selectFull({ namespace, jobIds })
}

/** Deletes the logs that `findLongLogs` found. */
export function deleteLongLogs(namespace: string, found: Result): readonly Bound[] {
  const rows = (found.rows as readonly AttemptKey[]).map((row) => ({
    job_id: row.job_id,
    attempt: Number(row.attempt),
  }))
  return rows.length === 0 ? [] : [deleteLogs({ namespace, rows }), deleteProgress({ namespace, rows })]
}
