import { SignalboxError } from '../../core/errors.ts'
import { onlyKeys, show, text, whole } from '../../core/options.ts'
import type { Held } from '../api/jobs-api.ts'
import { leaseLost } from '../job-errors.ts'
import type { JobRecord, JobStore } from '../job-store.ts'
import type { LogLevel, LogLine, LogQuery } from './log-store.ts'
import type { LogKeeper } from './log-writer.ts'
import {
  decodeProgress,
  encodeProgress,
  type JobProgress,
  makeLogLine,
  mergeProgress,
  type ProgressUpdate,
} from './progress.ts'

/** A line that a handler wrote about its job. */
export type JobLogLine = LogLine

/** Which log lines of a job. */
export interface LogsOptions {
  /** @default 100, at most 500 */
  readonly limit?: number | undefined
  /** Where the page before ended, as it said. */
  readonly cursor?: string | null | undefined
}

/** What to note about a job in hand. */
export interface NoteOptions {
  readonly progress?: ProgressUpdate | undefined
  readonly logs?: readonly { readonly text: string; readonly level?: LogLevel | undefined }[] | undefined
}

/** What jobs that were noted about show of it. */
export interface JobLogs {
  /** Null for a job that has not begun, and where nobody said how far it is. */
  progressOf(record: JobRecord): Promise<JobProgress | null>
  logs(id: string, options?: LogsOptions): Promise<{ items: readonly JobLogLine[]; cursor: string | null }>
  note(job: Held, options: NoteOptions): Promise<void>
  prune(olderThanMs: number): Promise<void>
}

const maxLines = 2_000
const pruneBatch = 1_000

/** Without a keeper nothing was ever said. */
export function createJobLogs(store: JobStore, keeper: LogKeeper | undefined): JobLogs {
  return {
    async progressOf({ id, attempt, startedAt, state, handBackCount, snoozeCount }) {
      if (keeper === undefined || (attempt === 0 && startedAt === null)) return null
      const [said] = await keeper.progress([id])
      // One that was given back free had an attempt more; any later one was before the job was begun anew by `retry`.
      const newest = state === 'scheduled' || state === 'ready' ? attempt + 1 : attempt
      if (said === undefined || said.attempt > newest) return null
      // Nothing was given back, so this number is new in its run: said before it began, it is of the run before `retry`.
      const wasGivenBack = handBackCount > 0 || snoozeCount > 0
      const isOfLastRun = state === 'running' && !wasGivenBack && said.attempt === attempt
      if (isOfLastRun && startedAt !== null && said.at < startedAt) return null
      return { ...decodeProgress(said.progress), at: said.at, attempt: said.attempt }
    },

    async logs(id, options = {}) {
      onlyKeys('logs', options, ['limit', 'cursor'])
      const limit = whole('logs.limit', options.limit ?? 100, { min: 1, max: 500 })
      const after = readCursor(options.cursor)
      const query: LogQuery = { limit: limit + 1, ...(after && { after }) }
      const found = (await keeper?.logs(text('logs.id', id), query)) ?? []
      const items = found.slice(0, limit)
      const last = items.at(-1)
      return { items, cursor: found.length > limit ? `${last!.attempt}-${last!.number}` : null }
    },

    async note(job, options) {
      onlyKeys('note', options, ['progress', 'logs'])
      const { progress, logs = [] } = options
      if (!Array.isArray(logs) || logs.length > maxLines) throw notLogs(logs)
      const { id, token } = job
      const attempt =
        job.attempt === undefined ? undefined : whole('note.attempt', job.attempt, { min: 1, max: 1_000 })
      // Looked at first: if the lease holds after that, it held then, and the attempt is its own.
      const record = await store.find(text('note.id', id))
      const [outcome] = await store.outcomes([{ jobId: id, token }])
      const isOver = outcome === 'settled' && attempt !== undefined
      if (record === undefined || (outcome !== 'held' && !isOver)) throw leaseLost(id)
      const note = {
        jobId: id,
        token,
        // The last words of an attempt may come after its end.
        attempt: isOver ? attempt : record.attempt,
        progress: progress === undefined ? null : encodeProgress(mergeProgress(undefined, progress)),
        logs: logs.map((line) => makeLogLine(line?.text, line?.level)),
      }
      await keeper?.add([note])
    },

    async prune(olderThanMs) {
      while (keeper !== undefined) {
        if ((await keeper.prune({ olderThanMs, limit: pruneBatch })) < pruneBatch) return
      }
    },
  }
}

function readCursor(cursor: unknown): LogQuery['after'] | undefined {
  if (cursor === undefined || cursor === null) return undefined
  const [, attempt, number] = /^(\d{1,9})-(\d{1,9})$/.exec(String(cursor)) ?? []
  if (number !== undefined) return { attempt: Number(attempt), number: Number(number) }
  throw new SignalboxError(
    'invalid_argument',
    `logs.cursor must be what a page before gave, not ${show(cursor)}.`,
    { details: { option: 'logs.cursor' } },
  )
}

function notLogs(value: unknown): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `note.logs must be a list of up to ${maxLines} log lines such as { text: 'half of it' }, not ${show(value)}.`,
    { details: { option: 'note.logs' } },
  )
}
