import type { LogUpdate } from '../../jobs/index.ts'
import type { LogLevel, logLimits as moduleLimits, NewLogLine } from '../../jobs/logs/log-store.ts'

/** The same numbers as the service's, which the compiler sees to. */
export const logLimits: typeof moduleLimits = { maxLines: 500, maxLineBytes: 65_536 }
const { maxLines, maxLineBytes } = logLimits

/**
 * When a job is begun anew its attempts count from 1 again, and say what they have to say behind what the earlier ones of
 * the same number said. One that used more than this is forgotten then, or there would be no room for them.
 */
export const keptForRetry: Readonly<Record<'lineCount' | 'lineBytes', number>> = {
  lineCount: maxLines / 2,
  lineBytes: maxLineBytes / 2,
}

/** How much one attempt has said so far. */
export interface SaidSoFar {
  /** Lines that were kept, and their bytes together. */
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
 * What becomes of new lines of an attempt. From the first that does not fit on, all are dropped: a gap in the middle would
 * look like something that never was. The one line behind those kept says how many; it is written over when there are more.
 */
export function placeLines(
  said: SaidSoFar,
  lines: readonly NewLogLine[],
): { readonly said: SaidSoFar; readonly kept: readonly PlacedLine[]; readonly dropped: PlacedLine | null } {
  let { lineCount, lineBytes, droppedCount } = said
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
  const hasMore = droppedCount > said.droppedCount
  const dropped = hasMore
    ? { number: lineCount + 1, level: 'warn' as const, text: droppedText(droppedCount) }
    : null
  return { said: { lineCount, lineBytes, droppedCount }, kept, dropped }
}

/** The text of the last line, which counts the dropped ones. */
export function droppedText(count: number): string {
  const what = count === 1 ? '1 line was' : `${count} lines were`
  return `${what} dropped: an attempt keeps up to ${maxLines} lines and ${maxLineBytes} bytes.`
}

/** All that one call says of one attempt. */
export interface AttemptLog {
  readonly jobId: string
  readonly attempt: number
  /** The latest; null: nothing about that. */
  readonly progress: string | null
  /** How many lines there are. */
  readonly lineCount: number
  /** Those that an attempt which has said nothing yet would keep; the others fit in no case, and are only counted. */
  readonly logs: readonly SizedLogLine[]
}

export interface SizedLogLine {
  readonly level: LogLevel
  readonly text: string
  /** The bytes of this call's lines of the attempt, up to and with this one. */
  readonly bytesSoFar: number
}

/** The updates of a call by attempt, in the order in which everybody locks them: by job, then attempt. */
export function gatherUpdates(updates: readonly LogUpdate[]): readonly AttemptLog[] {
  const said = updates.filter(({ progress, logs }) => progress !== null || logs.length > 0)
  const attempts = Map.groupBy(said, ({ jobId, attempt }) => `${jobId} ${attempt}`)
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
