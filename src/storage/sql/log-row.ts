import type { LogUpdate } from '../../jobs/index.ts'
import type { LogLevel, logLimits as moduleLimits, NewLogLine } from '../../jobs/logs/log-store.ts'

/** The same numbers as those of the jobs module. The compiler checks it. */
export const logLimits: typeof moduleLimits = { maxLines: 500, maxLineBytes: 65_536 }
const { maxLines, maxLineBytes } = logLimits

/**
 * A retried job counts its attempts from 1 again, and their log lines follow those of the earlier attempts with the
 * same number. If an earlier attempt logged more than this, the retry deletes its lines, so that the new attempt has
 * capacity.
 */
export const keptForRetry: Readonly<Record<'lineCount' | 'lineBytes', number>> = {
  lineCount: maxLines / 2,
  lineBytes: maxLineBytes / 2,
}

/** The counters of one attempt. */
export interface LogCounters {
  /** The lines that were kept, and their total bytes. */
  readonly lineCount: number
  readonly lineBytes: number
  readonly droppedCount: number
}

/** A log line with its position in its attempt. */
export interface PlacedLine {
  readonly number: number
  readonly level: LogLevel
  readonly text: string
}

/**
 * Decides which new lines of an attempt are kept. From the first line that does not fit, all lines are dropped: a gap
 * in the middle would be misleading. One line after the kept lines gives the number of dropped lines; it changes when
 * there are more.
 */
export function placeLines(
  counters: LogCounters,
  lines: readonly NewLogLine[],
): {
  readonly counters: LogCounters
  readonly kept: readonly PlacedLine[]
  readonly dropped: PlacedLine | null
} {
  let { lineCount, lineBytes, droppedCount } = counters
  const kept: PlacedLine[] = []
  for (const { level, text } of lines) {
    const bytes = Buffer.byteLength(text)
    if (droppedCount > 0 || lineCount >= maxLines || lineBytes + bytes > maxLineBytes) {
      droppedCount++
      continue
    }
    lineCount++
    lineBytes += bytes
    kept.push({ number: lineCount, level, text })
  }
  const hasMore = droppedCount > counters.droppedCount
  const dropped = hasMore
    ? { number: lineCount + 1, level: 'warn' as const, text: droppedText(droppedCount) }
    : null
  return { counters: { lineCount, lineBytes, droppedCount }, kept, dropped }
}

/** The text of the last line, which gives the number of dropped lines. */
export function droppedText(count: number): string {
  const what = count === 1 ? '1 line was' : `${count} lines were`
  return `${what} dropped: an attempt keeps up to ${maxLines} lines and ${maxLineBytes} bytes.`
}

/** All updates of one attempt in one call. */
export interface AttemptLog {
  readonly jobId: string
  readonly attempt: number
  /** The latest progress. Null: the call has none. */
  readonly progress: string | null
  /** The total number of lines. */
  readonly lineCount: number
  /** The lines that an empty attempt would keep. The other lines never fit and are only counted. */
  readonly logs: readonly SizedLogLine[]
}

export interface SizedLogLine {
  readonly level: LogLevel
  readonly text: string
  /** The bytes of this call's lines of the attempt, up to and including this line. */
  readonly bytesSoFar: number
}

/** Groups the updates of a call by attempt, sorted by job, then attempt. Every caller locks attempts in this order. */
export function gatherUpdates(updates: readonly LogUpdate[]): readonly AttemptLog[] {
  const relevant = updates.filter(({ progress, logs }) => progress !== null || logs.length > 0)
  const attempts = Map.groupBy(relevant, ({ jobId, attempt }) => `${jobId} ${attempt}`)
  return [...attempts.values()].map(gather).sort(byAttempt)
}

function gather(updates: readonly LogUpdate[]): AttemptLog {
  const [{ jobId, attempt }] = updates as [LogUpdate]
  const lines = updates.flatMap((note) => note.logs)
  let bytesSoFar = 0
  const sized = lines.slice(0, logLimits.maxLines).map(({ level, text }) => {
    bytesSoFar += Buffer.byteLength(text)
    return { level, text, bytesSoFar }
  })
  return {
    jobId,
    attempt,
    progress: updates.findLast(({ progress }) => progress !== null)?.progress ?? null,
    lineCount: lines.length,
    logs: sized.filter((line) => line.bytesSoFar <= logLimits.maxLineBytes),
  }
}

function byAttempt(a: AttemptLog, b: AttemptLog): number {
  if (a.jobId !== b.jobId) return a.jobId < b.jobId ? -1 : 1
  return a.attempt - b.attempt
}
