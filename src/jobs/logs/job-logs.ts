import { encodeJson } from '../../core/json.ts'
import { onlyKeys, refuse, text, whole } from '../../core/options.ts'
import type { Held } from '../api/jobs-api.ts'
import { leaseLost } from '../job-errors.ts'
import type { JobRecord, JobStore } from '../job-store.ts'
import type { LogLevel, LogLine, LogQuery, NewLogLine } from './log-store.ts'
import type { AttemptLogStore } from './log-writer.ts'

/** A line that a handler wrote about its job. */
export type JobLogLine = LogLine

/** Which log lines of a job to read. */
export interface LogsOptions {
  /** @default 100, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | null | undefined
}

/** Progress and log lines for a claimed job. */
export interface NoteOptions {
  readonly progress?: ProgressUpdate | undefined
  readonly logs?: readonly { readonly text: string; readonly level?: LogLevel | undefined }[] | undefined
}

/** Reads and writes the logs and progress of jobs. */
export interface JobLogs {
  /** Null for a job that has not begun, or whose handler reported no progress. */
  progressOf(record: JobRecord): Promise<JobProgress | null>
  logs(id: string, options?: LogsOptions): Promise<{ items: readonly JobLogLine[]; cursor: string | null }>
  note(job: Held, options: NoteOptions): Promise<void>
}

const maxLines = 2_000

/** Without a log store there are no logs. */
export function createJobLogs(store: JobStore, attemptLogs: AttemptLogStore | undefined): JobLogs {
  return {
    async progressOf({ id, attempt, startedAt, state, handBackCount, snoozeCount }) {
      if (attemptLogs === undefined || (attempt === 0 && startedAt === null)) return null
      const [reported] = await attemptLogs.progress([id])
      // A job that was handed back had one more attempt. A higher number is from before `retry` reset the count.
      const newest = state === 'scheduled' || state === 'ready' ? attempt + 1 : attempt
      if (reported === undefined || reported.attempt > newest) return null
      // Without hand-backs, attempt numbers are unique since `retry`. So progress from before this start is older.
      const wasHandedBack = handBackCount > 0 || snoozeCount > 0
      const isOfLastRun = state === 'running' && !wasHandedBack && reported.attempt === attempt
      if (isOfLastRun && startedAt !== null && reported.at < startedAt) return null
      return { ...decodeProgress(reported.progress), at: reported.at, attempt: reported.attempt }
    },

    async logs(id, options = {}) {
      onlyKeys('logs', options, ['limit', 'cursor'])
      const limit = whole('logs.limit', options.limit ?? 100, { min: 1, max: 500 })
      const after = readCursor(options.cursor)
      const query: LogQuery = { limit: limit + 1, ...(after && { after }) }
      const found = (await attemptLogs?.logs(text('logs.id', id), query)) ?? []
      const items = found.slice(0, limit)
      const last = items.at(-1)
      return { items, cursor: found.length > limit ? `${last!.attempt}-${last!.number}` : null }
    },

    async note(job, options) {
      onlyKeys('note', options, ['progress', 'logs'])
      const { progress, logs = [] } = options
      if (!Array.isArray(logs) || logs.length > maxLines)
        refuse('note.logs', `a list of up to ${maxLines} log lines such as { text: 'half of it' }`, logs)
      const { id, token } = job
      const attempt =
        job.attempt === undefined ? undefined : whole('note.attempt', job.attempt, { min: 1, max: 1_000 })
      // Read the record first. If the lease is live after that, it was live then, and the attempt belongs to the token.
      const record = await store.find(text('note.id', id))
      const [outcome] = await store.outcomes([{ jobId: id, token }])
      const hasEnded = outcome === 'settled' && attempt !== undefined
      if (record === undefined || (outcome !== 'held' && !hasEnded)) throw leaseLost(id)
      const note = {
        jobId: id,
        token,
        // The last lines of an attempt may arrive after its end.
        attempt: hasEnded ? attempt : record.attempt,
        progress: progress === undefined ? null : encodeProgress(mergeProgress(undefined, progress)),
        logs: logs.map((line) => makeLogLine(line?.text, line?.level)),
      }
      await attemptLogs?.add([note])
    },
  }
}

function readCursor(cursor: unknown): LogQuery['after'] | undefined {
  if (cursor === undefined || cursor === null) return undefined
  const [, attempt, number] = /^(\d{1,9})-(\d{1,9})$/.exec(String(cursor)) ?? []
  if (number !== undefined) return { attempt: Number(attempt), number: Number(number) }
  return refuse('logs.cursor', 'the cursor of a previous page', cursor)
}

/** The progress that a handler reports: a percentage, or more fields. An omitted field does not change. */
export type ProgressUpdate =
  | number
  | {
      readonly percent?: number | undefined
      readonly note?: string | undefined
      /** Any JSON value of up to 16 KiB. */
      readonly data?: unknown
    }

/** The latest progress of an attempt. */
export interface JobProgress {
  readonly percent: number | null
  readonly note: string | null
  readonly data: unknown
  /** When it was reported, by the store's clock. */
  readonly at: number
  /** The attempt that reported it. */
  readonly attempt: number
}

/** The progress of an attempt so far. */
export interface ReportedProgress {
  readonly percent: number | null
  readonly note: string | null
  /** JSON text, or null. */
  readonly data: string | null
}

export const progressLimits = { maxNoteChars: 500, maxDataChars: 16_384, maxLineChars: 4_096 } as const

const nothing: ReportedProgress = { percent: null, note: null, data: null }

/** Merges an update. Ignores invalid fields: reporting progress must never fail. */
export function mergeProgress(before: ReportedProgress | undefined, update: unknown): ReportedProgress {
  const { percent, note, data } = fieldsOf(update)
  const { maxNoteChars } = progressLimits
  const known = before ?? nothing
  return {
    percent:
      typeof percent === 'number' && !Number.isNaN(percent)
        ? Math.min(100, Math.max(0, percent))
        : known.percent,
    note: note === undefined ? known.note : note === null ? null : storableText(note, maxNoteChars),
    data: data === undefined ? known.data : encodeData(data),
  }
}

export function encodeProgress({ percent, note, data }: ReportedProgress): string {
  const plain = JSON.stringify({ percent, note })
  return data === null ? plain : `${plain.slice(0, -1)},"data":${data}}`
}

/** Never throws: a damaged row has no progress. */
export function decodeProgress(kept: string): Omit<JobProgress, 'at' | 'attempt'> {
  let reported: Partial<JobProgress> = {}
  try {
    reported = (JSON.parse(kept) as Partial<JobProgress> | null) ?? {}
  } catch {
    // Damaged: no progress.
  }
  const { percent = null, note = null, data = null } = reported
  return {
    percent: typeof percent === 'number' ? percent : null,
    note: typeof note === 'string' ? note : null,
    data,
  }
}

const levels: readonly unknown[] = ['info', 'warn', 'error'] satisfies readonly LogLevel[]

/** Turns any value into a log line that every store accepts. */
export function makeLogLine(text: unknown, level: unknown = 'info'): NewLogLine {
  return {
    level: levels.includes(level) ? (level as LogLevel) : 'info',
    text: storableText(text, progressLimits.maxLineChars),
  }
}

function fieldsOf(update: unknown): { percent?: unknown; note?: unknown; data?: unknown } {
  if (typeof update === 'number') return { percent: update }
  if (typeof update !== 'object' || update === null) return {}
  try {
    const { percent, note, data } = update as { percent?: unknown; note?: unknown; data?: unknown }
    return { percent, note, data }
  } catch {
    return {}
  }
}

function encodeData(data: unknown): string | null {
  try {
    const encoded = encodeJson('progress.data', data)
    return encoded.length > progressLimits.maxDataChars ? null : encoded
  } catch {
    return null
  }
}

/** Replaces null characters and broken surrogates, which some stores refuse, and shortens long text. */
function storableText(value: unknown, maxChars: number): string {
  let text: string
  try {
    text = typeof value === 'string' ? value : String(value)
  } catch {
    text = 'something that cannot be written as text'
  }
  const cut = text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text
  return cut.toWellFormed().replaceAll('\0', '\ufffd')
}
